"""Typed events of a turn. Every chat surface shows these and nothing else."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from agent.messages import Usage


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """Hermes begins to answer a message."""

    message_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Steered:
    """A message that arrived while the turn ran has been given to the model."""

    message_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Queued:
    """A message arrived while a turn was running."""

    message_id: str
    text: str
    how: Literal["queue", "steer", "interrupt"]
    """The message waits, is given to the model at its next step, or ends the running turn."""
    ahead: int
    """Turns that come before its own, the running one included."""


@dataclass(frozen=True, slots=True)
class StepStarted:
    """The model begins to answer. The answer is stored under this id, even if it is written again after a crash."""

    message_id: str


@dataclass(frozen=True, slots=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolFinished:
    call_id: str
    name: str
    ok: bool
    result: str
    seconds: float


@dataclass(frozen=True, slots=True)
class ApprovalAsked:
    """A dangerous tool call waits for the person."""

    approval_id: str
    tool: str
    arguments: str
    """Exactly what is to be approved."""
    person: str
    """Whose answer counts."""
    expires_at: float


@dataclass(frozen=True, slots=True)
class ApprovalSettled:
    approval_id: str
    choice: Literal["once", "conversation", "deny", "expired"]


@dataclass(frozen=True, slots=True)
class FileSent:
    """The agent gives the person a file of its workspace."""

    workspace: str
    path: str
    """Within the workspace. To be read with `Workspace(...).read(path)` only: that follows no links."""
    name: str
    caption: str
    outbox_id: str = ""
    """Id of its outbox row, if it has to be delivered. Notices and failures have one, too."""


@dataclass(frozen=True, slots=True)
class UsageReported:
    """After every model call."""

    usage: Usage
    model: str
    context_length: int


@dataclass(frozen=True, slots=True)
class Compacted:
    """The conversation was split; it goes on in a child session."""

    session_id: str
    messages_before: int
    messages_after: int
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence from Hermes to the person, not from the model and not part of the history."""

    text: str
    outbox_id: str = ""
    for_admins: bool = False
    """It names settings, which are of no use to others."""


@dataclass(frozen=True, slots=True)
class TurnDone:
    """The turn is over. `text` is the last answer; it equals what is stored."""

    text: str
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """The turn ended without an answer. `error` is a sentence for the person."""

    error: str
    outbox_id: str = ""
    retracts: bool = False
    """Whether the text of the unfinished step must disappear: it is not stored."""


TurnEvent = (
    TurnStarted
    | Queued
    | Steered
    | StepStarted
    | TextDelta
    | ToolStarted
    | ToolFinished
    | ApprovalAsked
    | ApprovalSettled
    | FileSent
    | UsageReported
    | Compacted
    | Notice
    | TurnDone
    | TurnFailed
)

_BY_NAME: dict[str, type[Any]] = {cls.__name__: cls for cls in get_args(TurnEvent)}


def event_to_dict(event: TurnEvent) -> dict[str, Any]:
    return {"type": type(event).__name__, **asdict(event)}


def event_from_dict(data: dict[str, Any]) -> TurnEvent:
    fields = {key: value for key, value in data.items() if key != "type"}
    if data["type"] == "UsageReported":
        fields["usage"] = Usage(**fields["usage"])
    event: TurnEvent = _BY_NAME[data["type"]](**fields)
    return event
