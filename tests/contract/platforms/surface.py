"""What people can do and see, wherever they talk to Hermes: the language in which the contract is written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

import pytest

from tests.contract.platforms.scripted_model import echo

Feature = Literal[
    "approvals",  # a dangerous tool asks with buttons
    "edits",  # people change what they wrote
    "files",  # people and the agent send files
    "gets files",  # the agent sends files
    "groups",  # several people in one place
    "limits",  # a message has a longest length
    "menu",  # commands are registered with the service
    "replies",  # a message can refer to another
    "strangers",  # every user can find the bot
    "threads",  # a group has several conversations
    "typing",  # a sign that an answer is being written
]

_CHAT: frozenset[Feature] = frozenset(get_args(Feature))
_FEATURES: dict[str, frozenset[Feature]] = {
    "telegram": _CHAT,
    "discord": _CHAT,
    "web": frozenset(("approvals", "gets files")),
    "terminal": frozenset(("approvals",)),
}

CONTRACT = pytest.mark.asyncio(loop_scope="session")
"""For `pytestmark`: all scenarios share one harness, so they share an event loop, and a worker (`tests/workers.py`)."""


def on(*features: Feature) -> pytest.MarkDecorator:
    """The scenario is told on every surface that has these features."""
    names = [name for name, has in _FEATURES.items() if has >= {*features}]
    return pytest.mark.parametrize("surface", names, indirect=True)


@dataclass(frozen=True)
class File:
    name: str
    data: bytes
    kind: Literal["image", "voice", "document"] = "document"


@dataclass(frozen=True)
class Shown:
    """A message of Hermes as a person sees it now."""

    text: str
    is_growing: bool = False
    """More of it is being written."""
    buttons: dict[str, str] = field(default_factory=dict)
    """What a press sends, by label."""
    file: File | None = None
    versions: Sequence[str] = ()
    """Every text it ever showed, where the surface tells."""
    message: Any = None
    """The surface's own message object."""


class Person(ABC):
    """A person in one place of a surface. Verbs for features that the surface lacks raise."""

    name: str
    waiting = "⏳"
    """Words that acknowledge a message whose turn has not come."""
    steering = "⏳"
    """Words that acknowledge a message that the model gets at its next step."""

    @abstractmethod
    async def says(self, text: str, *, to_bot: bool = True, reply_to: Any = None) -> Any:
        """Writes a message and gives it. In a group it names the bot unless told not to."""

    @abstractmethod
    def messages(self) -> list[Shown]:
        """What Hermes has written here and can be seen now."""

    @abstractmethod
    async def until(self, condition: Callable[[], bool]) -> None:
        """Until this is so; looked at whenever something changes here."""

    async def uses(self, command: str, argument: str = "") -> None:
        """A command in the way of the surface: picked from a menu where there is one."""
        await self.says(f"/{command} {argument}".rstrip())

    async def presses(self, shown: Shown, label: str) -> str:
        """The button as it was when it was shown, even if it is gone by now; gives what the person is told."""
        raise NotImplementedError

    async def edits(self, said: Any, text: str) -> None:
        raise NotImplementedError

    async def pastes(self, text: str) -> None:
        """A text so long that the client sends it in parts."""
        raise NotImplementedError

    async def sends(self, *files: File, text: str = "") -> None:
        raise NotImplementedError

    def is_typing_shown(self) -> bool:
        """Whether the sign that an answer is being written was ever given here."""
        raise NotImplementedError

    def code_blocks(self) -> list[tuple[str, str]]:
        """Language and content of each block of code, a block in each message counted on its own."""
        raise NotImplementedError

    async def sees_bold(self, words: str) -> bool:
        """Return whether these words are visibly bold."""
        raise NotImplementedError

    # -- the same everywhere ---------------------------------------------------------------------------------

    def visible(self) -> list[str]:
        return [shown.text for shown in self.messages() if shown.text]

    def files(self) -> list[File]:
        return [shown.file for shown in self.messages() if shown.file]

    async def asks(self, text: str, *, to_bot: bool = True) -> Shown:
        """Says something that nothing was planned for, and waits for the echo."""
        before = self.count(echo(text))
        await self.says(text, to_bot=to_bot)
        await self.until(lambda: self.count(echo(text)) > before)
        return await self.is_answered(echo(text))

    async def sees(self, words: str) -> Shown:
        """Until a message with these words can be seen, finished or not."""
        return await self._sees(lambda shown: words in shown.text)

    async def is_answered(self, words: str) -> Shown:
        """Until a message with these words is complete."""
        return await self._sees(lambda shown: words in shown.text and not shown.is_growing)

    async def is_asked(self) -> Shown:
        """Until there are buttons to press."""
        return await self._sees(lambda shown: bool(shown.buttons))

    def count(self, words: str) -> int:
        """How often these words can be read."""
        return sum(text.count(words) for text in self.visible())

    async def no_longer_sees(self, words: str) -> None:
        await self.until(lambda: not any(words in text for text in self.visible()))

    async def _sees(self, wanted: Callable[[Shown], bool]) -> Shown:
        await self.until(lambda: any(map(wanted, self.messages())))
        return next(filter(wanted, self.messages()))


class Surface(Protocol):
    name: str
    limit: int
    """The longest message."""

    def size(self, text: str) -> int:
        """As the service measures it."""
        ...

    async def person(self, name: str = "Ada") -> Person:
        """Return a person who may talk to Hermes, in a separate place."""
        ...


class ChatSurface(Surface, Protocol):
    """One with other people on it."""

    def admin(self) -> Person:
        """The one who decides about newcomers, in a direct chat."""
        ...

    def stranger(self, name: str = "Mallory") -> Person:
        """Return a person without access, in a direct chat."""
        ...

    def group(self, *names: str) -> list[Person]:
        """A new group in which Hermes answers, and these people in it."""
        ...

    def joins(self, newcomer: Person, member: Person) -> Person:
        """Return the newcomer in the group of this member, still without access."""
        ...

    def foreign_group(self, *people: Person) -> list[Person]:
        """The same people in a group in which Hermes was put by others."""
        ...

    def thread(self, title: str, *people: Person) -> list[Person]:
        """The same people in a thread of their group."""
        ...

    def slow_down_edits(self, seconds: int, *, after: int) -> Callable[[], bool]:
        """The service refuses the next edit but so many and asks for a pause. Gives whether it has happened."""
        ...

    def drop_next_message(self) -> None:
        """The connection breaks while the next message is being sent."""
        ...

    def most_edits_at_once(self) -> int: ...

    async def goes_down(self) -> None:
        """Make the service unreachable."""
        ...

    async def comes_back(self) -> None: ...

    def menu(self) -> set[str]:
        """The commands that the service offers in a direct chat."""
        ...
