"""When to kill: the moments at which a crash could lose something, and how the test catches them.

The servers report every request of Hermes before they execute it. At the chosen moment the process is killed; then the
request is dropped, or executed without a recipient for the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from tests.e2e.chaos.checks import CURSOR, SIGNS
from tests.e2e.chaos.process import Hermes
from tests.e2e.chaos.words import words_in

Outcome = Literal["lost", "unanswered", "answered"]
"""Fate of the request at whose arrival Hermes is killed: dropped, executed without an answer, or answered some
milliseconds before the kill.
"""

Kind = Literal["short", "stream", "long", "tool", "tool and stream"]
"""What the model makes of a message, see `model.py`."""

ALL: tuple[Outcome, ...] = ("lost", "unanswered", "answered")


@dataclass(frozen=True, slots=True)
class Bait:
    """A message that leads to the moment."""

    platform: str = ""
    """Any, where it is empty."""
    kind: Kind = "short"
    count: int = 1


@dataclass(frozen=True, slots=True)
class Moment:
    name: str
    point: str = ""
    """Request that marks the moment; empty for a moment that depends on time alone."""
    where: Callable[[Any], bool] = lambda what: True
    outcomes: tuple[Outcome, ...] = ALL
    seconds: tuple[float, float] = (0.0, 0.05)
    """For `answered`, how long it lives on; without a point, counted from the start or from the bait."""
    since: Literal["start", "bait"] = "start"
    bait: Bait | None = None


def _text(call: Any) -> str:
    """Of a call to Telegram or Discord."""
    if hasattr(call, "text"):
        return str(call.text)
    return str((call.body or {}).get("content") or "")


def _grows(call: Any) -> bool:
    return _text(call).rstrip().endswith(CURSOR)


def _ends(call: Any) -> bool:
    return bool(words_in(_text(call))) and not _grows(call)


def _goes_on(call: Any) -> bool:
    """The second message of a text that did not fit into one."""
    words = words_in(_text(call))
    return bool(words) and words[0].place > 0


def _is_sign(call: Any) -> bool:
    return _text(call).startswith(SIGNS)


def _confirms(call: Any) -> bool:
    """A poll that tells Telegram what has been taken in."""
    return bool(call.params.get("offset")) and bool(call.params.get("timeout"))


def _chat_moments(platform: str, send: str, edit: str, delete: str) -> list[Moment]:
    def moment(name: str, verb: str, where: Callable[[Any], bool], bait: Bait) -> Moment:
        return Moment(f"{platform}: {name}", f"{platform} {verb}", where, bait=bait)

    return [
        moment("a whole reply is sent", send, _ends, Bait(platform, "short")),
        moment("the beginning of a reply is sent", send, _grows, Bait(platform, "stream")),
        moment("a reply grows", edit, _grows, Bait(platform, "stream")),
        moment("a reply is finished", edit, _ends, Bait(platform, "stream")),
        moment("a reply goes on in another message", send, _goes_on, Bait(platform, "long")),
        moment("a sign is given", send, _is_sign, Bait(platform, "stream", count=2)),
        moment("a sign is taken away", delete, lambda call: True, Bait(platform, "stream", count=2)),
    ]


MOMENTS: tuple[Moment, ...] = (
    Moment("while it starts", seconds=(0.02, 1.2)),
    Moment("at any time", seconds=(0.6, 3.5), bait=Bait()),
    *(
        Moment(f"{platform}: a message has just been written", seconds=(0.0, 0.06), since="bait", bait=Bait(platform))
        for platform in ("telegram", "discord", "web")
    ),
    Moment("telegram: messages are confirmed", "telegram getUpdates", _confirms, bait=Bait("telegram")),
    *_chat_moments("telegram", "sendMessage", "editMessageText", "deleteMessage"),
    Moment("discord: what was missed is read", "discord get_messages", bait=Bait("discord")),
    *_chat_moments("discord", "send_message", "edit_message", "delete_message"),
    Moment("the model is asked", "model", outcomes=("lost",), bait=Bait()),
    Moment("the model answers", "model", outcomes=("answered",), seconds=(0.0, 0.2), bait=Bait()),
    Moment("the model is writing", "model", outcomes=("answered",), seconds=(0.2, 1.6), bait=Bait(kind="stream")),
    Moment("the model writes at length", "model", outcomes=("answered",), seconds=(0.2, 1.6), bait=Bait(kind="long")),
    Moment("a tool runs", "tool", bait=Bait(kind="tool")),
    Moment("a tool has run", "tool", outcomes=("answered",), seconds=(0.0, 0.3), bait=Bait(kind="tool and stream")),
)  # fmt: skip


class Trap:
    """Waits for one moment at a time."""

    def __init__(self, hermes: Hermes) -> None:
        self._hermes = hermes
        self._moment: Moment | None = None
        self._outcome: Outcome = "lost"
        self._delay = 0.0
        self.sprung = asyncio.Event()

    def set(self, moment: Moment, outcome: Outcome, delay: float) -> None:
        self._moment, self._outcome, self._delay = moment, outcome, delay
        self.sprung.clear()

    def clear(self) -> None:
        self._moment = None

    def reach(self, point: str, what: Any) -> bool:
        """Called for everything that arrives, before it is carried out. True: it must not be."""
        moment = self._moment
        if moment is None or moment.point != point or not moment.where(what):
            return False
        self._moment = None
        if self._outcome == "answered":
            asyncio.get_running_loop().call_later(self._delay, self._spring)
        else:
            self._spring()
        return self._outcome == "lost"

    def _spring(self) -> None:
        self._hermes.kill()
        self.sprung.set()
