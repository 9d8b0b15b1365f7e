"""Outbound calls: the `ChatPort` of Discord."""

from __future__ import annotations

import asyncio
import io
import re
import secrets
from collections.abc import Awaitable, Callable, Sequence

import discord

from gateway.chat.errors import ContentRefused, MessageGone, SlowDown, Undeliverable, Unreachable
from gateway.platforms.discord.errors import (
    ARCHIVED_FOR_EDITS,
    DEFAULT_MEANINGS,
    NO_FILES_HERE,
    CodeMeanings,
    delivery_errors,
)
from gateway.platforms.discord.message_reader import fetch, place_of
from gateway.text.tables import render_tables
from gateway.text.unicode import Measure, repair_surrogates
from gateway.types import Button, Place

NO_MENTIONS = discord.AllowedMentions.none()
"""Sent with every text, so that the words of a model notify no one."""

LIMIT = 2000
_FILE_LIMIT = 10 * 1024 * 1024
_EDIT_SECONDS = 1.2
"""Discord accepts about five edits in five seconds per channel."""

_DELAYS = (0.0, 0.3, 1.0)
"""Delays before each attempt to send a message whose response was lost."""

_MAX_LABEL = 80
_INVALID_IN_FILE_NAME = re.compile(r'[\x00-\x1f\x7f"\\/]')


class DiscordPort:
    """`ChatPort` of one Discord bot, through the client that is connected now."""

    def __init__(self, platform: str) -> None:
        self.platform = platform
        self.limit = LIMIT
        self.measure: Measure = len
        self.can_edit = True
        self.file_limit = _FILE_LIMIT
        self.client: discord.Client | None = None

    def edit_seconds(self, place: Place) -> float:
        return _EDIT_SECONDS

    def pace_key(self, place: Place) -> str:
        """A thread has its own limit, like a channel."""
        return place.thread_id or place.chat_id

    async def direct(self, user_id: str) -> Place:
        with delivery_errors():
            channel = await self._connected().create_dm(discord.Object(int(user_id)))
        return place_of(channel)

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
        shown = _displayed(text, formatted)
        try:
            return await self._send(place, shown, reply_to, buttons, silent)
        except (ContentRefused, Undeliverable):
            if not reply_to:
                raise
            # A reply needs more rights, such as reading the history. Send the text without the reference.
            return await self._send(place, shown, "", buttons, silent)

    async def _send(
        self, place: Place, text: str, reply_to: str, buttons: Sequence[Button], silent: bool
    ) -> str:
        def attempt(nonce: str) -> Awaitable[discord.Message]:
            channel = self._channel(place)
            reference = _reference(channel, reply_to) if reply_to else None
            # No previews: Discord would fetch any address that the model writes.
            return channel.send(
                text,
                reference=reference,  # type: ignore[arg-type]  # None is its default
                mention_author=False,
                view=_button_row(buttons),  # type: ignore[arg-type]  # likewise
                allowed_mentions=NO_MENTIONS,
                nonce=nonce,
                suppress_embeds=True,
                silent=silent,
            )

        return await _send_once(attempt)

    async def edit(
        self,
        place: Place,
        message_id: str,
        text: str,
        *,
        formatted: bool = False,
        buttons: Sequence[Button] = (),
    ) -> None:
        message = self._channel(place).get_partial_message(int(message_id))
        with delivery_errors(ARCHIVED_FOR_EDITS):
            await message.edit(
                content=_displayed(text, formatted), view=_button_row(buttons), allowed_mentions=NO_MENTIONS
            )

    async def delete(self, place: Place, message_id: str) -> None:
        message = self._channel(place).get_partial_message(int(message_id))
        try:
            with delivery_errors():
                await message.delete()
        except MessageGone:
            return

    async def fetch(self, ref: str, name: str, size: int | None, most: int) -> bytes:
        return await fetch(ref, size, most)

    async def typing(self, place: Place) -> None:
        with delivery_errors():
            await self._channel(place).typing()

    async def send_file(self, place: Place, name: str, data: bytes, *, caption: str = "") -> str:
        def attempt(nonce: str) -> Awaitable[discord.Message]:
            return self._channel(place).send(
                repair_surrogates(caption) or None,
                file=discord.File(
                    io.BytesIO(data),
                    filename=_INVALID_IN_FILE_NAME.sub("_", repair_surrogates(name)) or "file",
                ),
                allowed_mentions=NO_MENTIONS,
                nonce=nonce,
                suppress_embeds=True,
            )

        return await _send_once(attempt, NO_FILES_HERE)

    def _channel(self, place: Place) -> discord.PartialMessageable:
        """Address the channel by its id; Discord decides what is allowed there."""
        return self._connected().get_partial_messageable(int(self.pace_key(place)))

    def _connected(self) -> discord.Client:
        if self.client is None or self.client.is_closed():
            raise Unreachable("(not connected)", maybe_done=False)
        return self.client


async def _send_once(
    attempt: Callable[[str], Awaitable[discord.Message]], meanings: CodeMeanings = DEFAULT_MEANINGS
) -> str:
    """Send a message, and retry with the same nonce if the response was lost: Discord keeps one message per nonce.

    Callers cannot do this: they change the text of a message that may have arrived.
    """
    nonce = secrets.token_hex(12)
    doubt: Unreachable | None = None
    for delay in _DELAYS:
        await asyncio.sleep(delay)
        try:
            with delivery_errors(meanings):
                return str((await attempt(nonce)).id)
        except Unreachable as error:
            if doubt is None and not error.maybe_done:
                raise
            doubt = doubt or error
        except SlowDown:
            if doubt is None:
                raise
    assert doubt is not None, "every other outcome has returned or raised"
    raise doubt


def _displayed(text: str, formatted: bool) -> str:
    """Return the text as Discord shows it: it renders Markdown, except tables."""
    text = repair_surrogates(text)
    if not formatted:
        return text
    with_tables = render_tables(text)
    return with_tables if len(with_tables) <= LIMIT else text


def _reference(channel: discord.PartialMessageable, message_id: str) -> discord.MessageReference:
    return discord.MessageReference(
        message_id=int(message_id), channel_id=channel.id, fail_if_not_exists=False
    )


def _button_row(buttons: Sequence[Button]) -> discord.ui.View | None:
    if not buttons:
        return None
    view = discord.ui.View(timeout=None)
    for button in buttons:
        label = repair_surrogates(button.label[:_MAX_LABEL])
        view.add_item(discord.ui.Button(label=label, custom_id=button.data, row=0))
    # The client handles presses of all buttons, so the library need not track this view.
    view.stop()
    return view
