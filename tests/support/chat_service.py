"""A strict chat service in memory that implements `ChatPort`.

It records violations: two calls for one message at once, texts that are too long or empty, edits without a change.
Tests make calls fail, with or without executing them, or hold them at a gate.
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
class VisibleMessage:
    """A message as people see it."""

    id: str
    place: Place
    text: str
    formatted: bool
    reply_to: str = ""
    buttons: tuple[Button, ...] = ()
    silent: bool = False
    data: bytes | None = None
    """The content of a file; `text` is its caption and `name` its name."""
    name: str = ""
    is_ghost: bool = False
    """The message arrived, but the caller was told that it may not have."""
    is_in_doubt: bool = False
    """The caller was told that an edit may or may not have arrived."""
    versions: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call of the service."""

    verb: Verb
    at: float
    chat_id: str
    message_id: str = ""
    text: str = ""
    formatted: bool = False


@dataclass(slots=True)
class Fault:
    """A fault for one call."""

    verb: Verb
    error: DeliveryError | OSError | None = None
    """None: the call succeeds once the gate is open."""
    executed: bool = False
    skip: int = 0
    """Matching calls that succeed before."""
    when: Callable[[RecordedCall], bool] = lambda call: True
    permanent: bool = False
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
        self.messages: list[VisibleMessage] = []
        """The visible messages, in the order in which they were sent."""
        self.calls: list[RecordedCall] = []
        self.violations: list[str] = []
        self.unchanged = 0
        self.files: dict[str, bytes] = {}
        """Attachments from people, by `ref`."""
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
        executed: bool = False,
        when: Callable[[RecordedCall], bool] = lambda call: True,
        permanent: bool = False,
    ) -> Fault:
        fault = Fault(verb, error, executed, skip, when, permanent)
        self._faults.append(fault)
        return fault

    def hold(self, verb: Verb, *, when: Callable[[RecordedCall], bool] = lambda call: True) -> Fault:
        """Hold the next matching call until its gate is set."""
        fault = Fault(verb, when=when, gate=asyncio.Event())
        self._faults.append(fault)
        return fault

    def heal(self) -> None:
        """Remove all faults."""
        self._faults.clear()

    async def until(self, condition: Callable[[], bool], seconds: float = 10.0) -> None:
        """Wait until the visible messages fulfil the condition."""
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            seen = "\n".join(repr(message.text) for message in self.messages)
            raise AssertionError(f"The condition was never fulfilled. Visible messages:\n{seen}") from None

    def texts(self, chat_id: str = "") -> list[str]:
        return [message.text for message in self.messages if not chat_id or message.place.chat_id == chat_id]

    def calls_of(self, *verbs: Verb) -> list[RecordedCall]:
        return [call for call in self.calls if call.verb in verbs]

    # -- the port --------------------------------------------------------------------------------------------

    def edit_seconds(self, place: Place) -> float:
        return self.pace

    def pace_key(self, place: Place) -> str:
        """Return the chat id: topics share the limits of their chat."""
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
        call = self._record("send", place, text=text, formatted=formatted)
        new = VisibleMessage(
            f"m{next(self._ids)}",
            place,
            text,
            formatted,
            reply_to,
            tuple(buttons),
            silent,
            versions=[text],
        )
        async with self._executing(call) as ghost:
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
        call = self._record("edit", place, message_id, text, formatted)
        try:
            async with self._executing(call):
                self._check(text, buttons)
                self._replace(self._find(place, message_id), text, formatted, tuple(buttons))
        except Unreachable as error:
            if error.maybe_done:
                self._find(place, message_id).is_in_doubt = True
            raise
        self._find(place, message_id).is_in_doubt = False

    async def delete(self, place: Place, message_id: str) -> None:
        async with self._executing(self._record("delete", place, message_id)):
            self.messages = [message for message in self.messages if message.id != message_id]

    async def fetch(self, ref: str, name: str, size: int | None, most: int) -> bytes:
        return self.files[ref][:most]

    async def typing(self, place: Place) -> None:
        async with self._executing(self._record("typing", place)):
            pass

    async def send_file(self, place: Place, name: str, data: bytes, *, caption: str = "") -> str:
        call = self._record("send_file", place, text=caption)
        new = VisibleMessage(f"m{next(self._ids)}", place, caption, False, data=data, name=name)
        async with self._executing(call) as ghost:
            if len(data) > self.file_limit:
                self.violations.append(f"a file of {len(data)} bytes")
                raise ContentRefused
            new.is_ghost = ghost
            self.messages.append(new)
        return new.id

    # -- strictness ------------------------------------------------------------------------------------------

    def _record(
        self, verb: Verb, place: Place, message_id: str = "", text: str = "", formatted: bool = False
    ) -> RecordedCall:
        call = RecordedCall(
            verb, asyncio.get_running_loop().time(), place.chat_id, message_id, text, formatted=formatted
        )
        self.calls.append(call)
        return call

    @asynccontextmanager
    async def _executing(self, call: RecordedCall) -> AsyncIterator[bool]:
        """Execute a call with its fault; yield whether the caller will be left in doubt."""
        about = (call.chat_id, call.message_id)
        if call.message_id and about in self._in_flight:
            self.violations.append(f"two calls at once about {about}")
        self._in_flight.add(about)
        fault = self._fault(call)
        try:
            await asyncio.sleep(0)
            if fault:
                fault.reached.set()
                self._changed.set()
                if fault.gate:
                    await fault.gate.wait()
            if fault is None or fault.error is None:
                yield False
            elif fault.executed:
                yield True
                raise fault.error
            else:
                raise fault.error
        finally:
            self._in_flight.discard(about)
            self._changed.set()

    def _fault(self, call: RecordedCall) -> Fault | None:
        for fault in self._faults:
            if fault.verb == call.verb and fault.when(call):
                if fault.skip:
                    fault.skip -= 1
                    continue
                if not fault.permanent:
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

    def _replace(
        self, message: VisibleMessage, text: str, formatted: bool, buttons: tuple[Button, ...]
    ) -> None:
        if (message.text, message.formatted, message.buttons) == (text, formatted, buttons):
            self.unchanged += 1
        message.text, message.formatted, message.buttons = text, formatted, buttons
        message.versions.append(text)

    def _find(self, place: Place, message_id: str) -> VisibleMessage:
        for message in self.messages:
            if message.id == message_id and message.place.chat_id == place.chat_id:
                return message
        raise MessageGone
