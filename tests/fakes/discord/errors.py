"""Discord's error responses: {"message", "code", "errors"} with its numbers and sentences."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

ERRORS: dict[int, tuple[int, str]] = {
    10003: (404, "Unknown Channel"),
    10004: (404, "Unknown Guild"),
    10007: (404, "Unknown Member"),
    10008: (404, "Unknown Message"),
    10013: (404, "Unknown User"),
    10014: (400, "Unknown Emoji"),
    10015: (404, "Unknown Webhook"),
    10062: (404, "Unknown interaction"),
    10063: (404, "Unknown application command"),
    40005: (413, "Request entity too large"),
    40060: (400, "Interaction has already been acknowledged."),
    50001: (403, "Missing Access"),
    50003: (403, "Cannot execute action on a DM channel"),
    50005: (403, "Cannot edit a message authored by another user"),
    50006: (400, "Cannot send an empty message"),
    50007: (403, "Cannot send messages to this user"),
    50013: (403, "Missing Permissions"),
    50021: (403, "Cannot execute action on a system message"),
    50024: (403, "Cannot execute action on this channel type"),
    50027: (401, "Invalid Webhook Token"),
    50083: (400, "Thread is archived"),
    50109: (400, "The request body contains invalid JSON."),
    50278: (403, "Cannot send messages to this user due to having no mutual guilds"),
    160002: (403, "Cannot reply without permission to read message history"),
    160004: (400, "A thread has already been created for this message"),
}


class Refused(Exception):
    """The request breaks a rule of the service."""

    def __init__(self, status: int, code: int, message: str, errors: Json | None = None) -> None:
        super().__init__(f"{status} {code} {message} {errors or ''}".strip())
        self.status = status
        self.code = code
        self.message = message
        self.errors = errors

    @property
    def body(self) -> Json:
        body: Json = {"message": self.message, "code": self.code}
        return {**body, "errors": self.errors} if self.errors else body


def refused(code: int) -> Refused:
    status, message = ERRORS[code]
    return Refused(status, code, message)


def plain(status: int, message: str) -> Refused:
    """The errors without a number of their own: 401, 404, 405."""
    return Refused(status, 0, f"{status}: {message}")


class Form:
    """Collects what is wrong with a body and refuses it once, naming every field, as Discord does."""

    def __init__(self, prefix: str = "") -> None:
        """`prefix`: the path under which the body lies, such as "data" in an interaction's response."""
        self._prefix = prefix
        self._errors: Json = {}

    def wrong(self, path: str, code: str, message: str) -> None:
        node = self._errors
        whole = ".".join(part for part in (self._prefix, path) if part)
        for step in whole.split(".") if whole else []:
            node = node.setdefault(step, {})
        node.setdefault("_errors", []).append({"code": code, "message": message})

    def check_length(self, path: str, value: str | list[Any], *, least: int = 0, most: int) -> None:
        if least <= len(value) <= most:
            return
        if least:
            self.wrong(path, "BASE_TYPE_BAD_LENGTH", f"Must be between {least} and {most} in length.")
        else:
            self.wrong(path, "BASE_TYPE_MAX_LENGTH", f"Must be {most} or fewer in length.")

    def check_choice(self, path: str, value: object, choices: tuple[object, ...]) -> bool:
        if value in choices and not isinstance(value, bool):
            return True
        self.wrong(path, "BASE_TYPE_CHOICES", f"Value must be one of {choices}.")
        return False

    def require(self, path: str, value: object) -> bool:
        if value is None:
            self.wrong(path, "BASE_TYPE_REQUIRED", "This field is required")
        return value is not None

    def raise_if_wrong(self) -> None:
        if self._errors:
            raise self.refusal()

    def refusal(self) -> Refused:
        return Refused(400, 50035, "Invalid Form Body", self._errors)


def invalid(path: str, code: str, message: str) -> Refused:
    """A body with exactly one thing wrong."""
    form = Form()
    form.wrong(path, code, message)
    return form.refusal()
