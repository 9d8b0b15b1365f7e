"""What an operator looks at: pages made by the server, that read well without a script and stay up to date with one."""

from gateway.platforms.web.dashboard.dashboard import Dashboard
from gateway.platforms.web.dashboard.page import DashboardContext

__all__ = ["Dashboard", "DashboardContext"]
