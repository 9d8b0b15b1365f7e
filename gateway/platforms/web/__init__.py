"""The web chat: a page that needs no build step, and the HTTP API that the terminal uses too."""

from gateway.platforms.web.platform import WebPlatform

__all__ = ["WebPlatform"]
