"""A chat service in memory, behind the same port as the real ones, and strict like them.

It notes what a real service would punish: two calls at once about one message, texts that are too long or empty,
edits that change nothing. It fails when it is told to, with or without having carried out the call, and can be held
at a gate for as long as a test needs.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from gateway.chat.errors import ContentRefused, DeliveryError, MessageGone, Unreachable
from gateway.text.unicode import Measure, is_blank
from gateway.types import Button, Place

Verb = Literal["send", "edit", "delete", "typing", "send_file"]


@dataclass(slots=True)
class Shown:
    """A message as people see it."""

    id: str
    place: Place
    text: str
    formatted: bool
    reply_to: str = ""
    buttons: tuple[Button, ...] = ()
    silent: bool = False
    data: bytes | None = None
    """Of a file; `text` is its caption then and `name` its name."""
    name: str = ""
    is_ghost: bool = False
    """It arrived, but whoever sent it was told that it may not have."""
    is_in_doubt: bool = False
    """The caller was told of an edit that it may or may not have arrived."""
    versions: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Made:
    """A call, for the log."""

    verb: Verb
    at: float
    chat_id: str
    message_id: str = ""
    text: str = ""
    formatted: bool = False


@dataclass(slots=True)
class Fault:
    """What happens to one call."""

    verb: Verb
    error: DeliveryError | OSError | None = None
    """None: the call succeeds, but only once the gate is open."""
    carried_out: bool = False
    skip: int = 0
    """Calls that go well before."""
    when: Callable[[Made], bool] = lambda made: True
    for_ever: bool = False
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event | None = None


class ChatService:
    """Implements `ChatPort`."""

    platform = "memory"

    def __init__(
        self,
        *,
        limit: int = 400,
        measure: Measure = len,
        can_edit: bool = True,
        file_limit: int = 1_000_000,
        pace: float = 0.01,
    ) -> None:
        self.limit = limit
        self.measure = measure
        self.can_edit = can_edit
        self.file_limit = file_limit
        self.pace = pace
        self.messages: list[Shown] = []
        """What is visible, in the order it was sent."""
        self.calls: list[Made] = []
        self.violations: list[str] = []
        self.unchanged = 0
        self.files: dict[str, bytes] = {}
        """What people have sent, by the `ref` of the attachment."""
        self._faults: list[Fault] = []
        self._in_flight: set[tuple[str, str]] = set()
        self._ids = itertools.count(1)
        self._changed = asyncio.Event()

    # -- for tests -------------------------------------------------------------------------------------------

    def fail(
        self,
        verb: Verb,
        error: DeliveryError | OSError,
        *,
        skip: int = 0,
        carried_out: bool = False,
        when: Callable[[Made], bool] = lambda made: True,
        for_ever: bool = False,
    ) -> Fault:
        fault = Fault(verb, error, carried_out, skip, when, for_ever)
        self._faults.append(fault)
        return fault

    def hold(self, verb: Verb, *, when: Callable[[Made], bool] = lambda made: True) -> Fault:
        """The next such call waits until its gate is opened."""
        fault = Fault(verb, when=when, gate=asyncio.Event())
        self._faults.append(fault)
        return fault

    def heal(self) -> None:
        """No more faults."""
        self._faults.clear()

    async def until(self, condition: Callable[[], bool], seconds: float = 10.0) -> None:
        """Waits for what people see to become so."""
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            seen = "\n".join(repr(message.text) for message in self.messages)
            raise AssertionError(f"That never came to be seen. This is there:\n{seen}") from None

    def texts(self, chat_id: str = "") -> list[str]:
        return [message.text for message in self.messages if not chat_id or message.place.chat_id == chat_id]

    def made(self, *verbs: Verb) -> list[Made]:
        return [call for call in self.calls if call.verb in verbs]

    # -- the port --------------------------------------------------------------------------------------------

    def edit_seconds(self, place: Place) -> float:
        return self.pace

    def pace_key(self, place: Place) -> str:
        """Topics of a chat share its limits."""
        return place.chat_id

    async def direct(self, user_id: str) -> Place:
        return Place(user_id)

    async def send(
        self,
        place: Place,
        text: str,
        *,
        formatted: bool = False,
        reply_to: str = "",
        buttons: Sequence[Button] = (),
        silent: bool = False,
    ) -> str:
        made = self._note("send", place, text=text, formatted=formatted)
        new = Shown(
            f"m{next(self._ids)}",
            place,
            text,
            formatted,
            reply_to,
            tuple(buttons),
            silent,
            versions=[text],
        )
        async with self._carrying_out(made) as ghost:
            self._check(text, buttons)
            new.is_ghost = ghost
            self.messages.append(new)
        return new.id

    async def edit(
        self,
        place: Place,
        message_id: str,
        text: str,
        *,
        formatted: bool = False,
        buttons: Sequence[Button] = (),
    ) -> None:
        made = self._note("edit", place, message_id, text, formatted)
        try:
            async with self._carrying_out(made):
                self._check(text, buttons)
                self._replace(self._find(place, message_id), text, formatted, tuple(buttons))
        except Unreachable as error:
            if error.maybe_done:
                self._find(place, message_id).is_in_doubt = True
            raise
        self._find(place, message_id).is_in_doubt = False

    async def delete(self, place: Place, message_id: str) -> None:
        async with self._carrying_out(self._note("delete", place, message_id)):
            self.messages = [message for message in self.messages if message.id != message_id]

    async def fetch(self, ref: str, name: str, size: int | None, most: int) -> bytes:
        return self.files[ref][:most]

    async def typing(self, place: Place) -> None:
        async with self._carrying_out(self._note("typing", place)):
            pass

    async def send_file(self, place: Place, name: str, data: bytes, *, caption: str = "") -> str:
        made = self._note("send_file", place, text=caption)
        new = Shown(f"m{next(self._ids)}", place, caption, False, data=data, name=name)
        async with self._carrying_out(made) as ghost:
            if len(data) > self.file_limit:
                self.violations.append(f"a file of {len(data)} bytes")
                raise ContentRefused
            new.is_ghost = ghost
            self.messages.append(new)
        return new.id

    # -- strictness ------------------------------------------------------------------------------------------

    def _note(
        self, verb: Verb, place: Place, message_id: str = "", text: str = "", formatted: bool = False
    ) -> Made:
        made = Made(
            verb, asyncio.get_running_loop().time(), place.chat_id, message_id, text, formatted=formatted
        )
        self.calls.append(made)
        return made

    @asynccontextmanager
    async def _carrying_out(self, made: Made) -> AsyncIterator[bool]:
        """Gives whether the caller will be left in doubt."""
        about = (made.chat_id, made.message_id)
        if made.message_id and about in self._in_flight:
            self.violations.append(f"two calls at once about {about}")
        self._in_flight.add(about)
        fault = self._fault(made)
        try:
            await asyncio.sleep(0)
            if fault:
                fault.reached.set()
                self._changed.set()
                if fault.gate:
                    await fault.gate.wait()
            if fault is None or fault.error is None:
                yield False
            elif fault.carried_out:
                yield True
                raise fault.error
            else:
                raise fault.error
        finally:
            self._in_flight.discard(about)
            self._changed.set()

    def _fault(self, made: Made) -> Fault | None:
        for fault in self._faults:
            if fault.verb == made.verb and fault.when(made):
                if fault.skip:
                    fault.skip -= 1
                    continue
                if not fault.for_ever:
                    self._faults.remove(fault)
                return fault
        return None

    def _check(self, text: str, buttons: Sequence[Button]) -> None:
        if self.measure(text) > self.limit:
            self.violations.append(f"a text of {self.measure(text)}")
            raise ContentRefused
        if is_blank(text):
            self.violations.append("an empty text")
            raise ContentRefused
        if any(len(button.data.encode()) > 64 for button in buttons):
            self.violations.append("button data over 64 bytes")
            raise ContentRefused

    def _replace(self, message: Shown, text: str, formatted: bool, buttons: tuple[Button, ...]) -> None:
        if (message.text, message.formatted, message.buttons) == (text, formatted, buttons):
            self.unchanged += 1
        message.text, message.formatted, message.buttons = text, formatted, buttons
        message.versions.append(text)

    def _find(self, place: Place, message_id: str) -> Shown:
        for message in self.messages:
            if message.id == message_id and message.place.chat_id == place.chat_id:
                return message
        raise MessageGone
