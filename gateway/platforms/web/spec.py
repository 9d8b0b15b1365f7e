"""The web chat's `PlatformSpec`: port check and factory."""

from __future__ import annotations

import errno
import http.client
import json
from collections.abc import Iterator
from pathlib import Path

from gateway.config.schema_platforms import WebConfig, connect_host
from gateway.platforms.base import Finding, Platform, PlatformContext, PlatformSpec, listen_error


def check(platform: str, config: WebConfig, home: Path) -> Iterator[Finding]:
    """Check that the port is free, or in use by Hermes."""
    where = f"{config.host}:{config.port}"
    error = listen_error(config.host, config.port)
    if error is None:
        yield Finding("ok", f"{where} is free for the chat page")
    elif error.errno != errno.EADDRINUSE:
        yield Finding("fail", f"cannot listen on {where} ({error.strerror}); set platforms.web.host and port")
    elif _is_hermes(config.host, config.port):
        yield Finding("ok", f"Hermes is running at {where}")
    else:
        yield Finding("fail", f"{where} is in use by another program; set platforms.web.port to a free port")


def _is_hermes(host: str, port: int) -> bool:
    connection = http.client.HTTPConnection(connect_host(host), port, timeout=2)
    try:
        connection.request("GET", "/healthz")
        answer = json.loads(connection.getresponse().read(1000))
    except (OSError, http.client.HTTPException, ValueError):
        return False
    finally:
        connection.close()
    return isinstance(answer, dict) and answer.get("service") == "hermes"


def build(context: PlatformContext) -> Platform:
    from gateway.platforms.web.dashboard.page import DashboardContext  # noqa: PLC0415 - loads the web server
    from gateway.platforms.web.platform import WebPlatform  # noqa: PLC0415

    config: WebConfig = context.config
    app = context.services
    return WebPlatform(
        DashboardContext(app.gateway, app.live_config, app.model, context.platforms, app.metrics),
        host=config.host,
        port=config.port,
        token=config.token.get_secret_value() if config.token else None,
        read_token=config.read_token.get_secret_value() if config.read_token else None,
        model_line=app.model_line,
    )


WEB = PlatformSpec("web", "Web", WebConfig, build, check=check)
