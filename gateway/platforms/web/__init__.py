"""The web chat: a page without a build step, the HTTP API that the terminal uses too, and the dashboard."""

from gateway.platforms.web.dashboard import DashboardContext
from gateway.platforms.web.platform import WebPlatform

__all__ = ["DashboardContext", "WebPlatform"]
