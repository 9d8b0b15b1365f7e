"""Errors of the Bot API: exceptions that become its error JSON."""

from __future__ import annotations

from typing import Any


class Refused(Exception):
    """The request breaks a rule of the Bot API."""

    def __init__(self, code: int, description: str, **parameters: Any) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.parameters = parameters

    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {"ok": False, "error_code": self.code, "description": self.description}
        return body | {"parameters": self.parameters} if self.parameters else body


def bad_request(reason: str, **parameters: Any) -> Refused:
    return Refused(400, f"Bad Request: {reason}", **parameters)


def forbidden(reason: str) -> Refused:
    return Refused(403, f"Forbidden: {reason}")


def conflict(reason: str) -> Refused:
    return Refused(409, f"Conflict: {reason}")


def too_many_requests(seconds: int) -> Refused:
    return Refused(429, f"Too Many Requests: retry after {seconds}", retry_after=seconds)
