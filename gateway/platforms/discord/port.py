"""The way out: what Discord can be asked to do."""

from __future__ import annotations

import io
import re
import secrets
from collections.abc import Sequence

import discord

from gateway.chat.contract import Button, Place
from gateway.chat.errors import ContentRefused, MessageGone, Undeliverable, Unreachable
from gateway.platforms.discord.errors import delivery_errors
from gateway.platforms.discord.inbound import place_of
from gateway.text.measure import Measure
from gateway.text.tables import readable_tables

NOBODY = discord.AllowedMentions.none()
"""Given with every text: no word of a model may ring anybody's phone."""

LIMIT = 2000
_FILE_LIMIT = 10 * 1024 * 1024
_EDIT_SECONDS = 1.2
"""Discord takes about five edits in five seconds in one channel."""

_LONGEST_LABEL = 80
_MOST_UNSURE = 100
_UNFIT_FOR_A_FILE_NAME = re.compile(r'[\x00-\x1f\x7f"\\/]')

Sent = tuple[Place, str, str]


class DiscordPort:
    """Speaks through whichever client is connected at the moment."""

    def __init__(self, platform: str) -> None:
        self.platform = platform
        self.limit = LIMIT
        self.measure: Measure = len
        self.can_edit = True
        self.file_limit = _FILE_LIMIT
        self.client: discord.Client | None = None
        self._unsure: dict[Sent, str] = {}
        """The nonces of messages that may have arrived: sent again under the same one, Discord keeps only one."""

    def edit_seconds(self, place: Place) -> float:
        return _EDIT_SECONDS

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
        shown = _shown(text, formatted)
        try:
            return await self._send(place, shown, reply_to, buttons, silent)
        except (ContentRefused, Undeliverable):
            if not reply_to:
                raise
            # Replying has conditions of its own, such as the right to read the history. Better no reply than no text.
            return await self._send(place, shown, "", buttons, silent)

    async def _send(
        self, place: Place, text: str, reply_to: str, buttons: Sequence[Button], silent: bool
    ) -> str:
        channel = self._channel(place)
        sent: Sent = (place, text, reply_to)
        nonce = self._unsure.pop(sent, "") or secrets.token_hex(12)
        reference = _reference(channel, reply_to) if reply_to else None
        try:
            with delivery_errors():
                # A preview would have Discord fetch any address a model was talked into writing.
                message = await channel.send(
                    text,
                    reference=reference,  # type: ignore[arg-type]  # None is its default
                    mention_author=False,
                    view=_row(buttons),  # type: ignore[arg-type]  # likewise
                    allowed_mentions=NOBODY,
                    nonce=nonce,
                    suppress_embeds=True,
                    silent=silent,
                )
        except Unreachable as error:
            if error.maybe_done and len(self._unsure) < _MOST_UNSURE:
                self._unsure[sent] = nonce
            raise
        return str(message.id)

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
        with delivery_errors():
            await message.edit(content=_shown(text, formatted), view=_row(buttons), allowed_mentions=NOBODY)

    async def delete(self, place: Place, message_id: str) -> None:
        message = self._channel(place).get_partial_message(int(message_id))
        try:
            with delivery_errors():
                await message.delete()
        except MessageGone:
            return

    async def typing(self, place: Place) -> None:
        with delivery_errors():
            await self._channel(place).typing()

    async def send_file(self, place: Place, name: str, data: bytes, *, caption: str = "") -> str:
        file = discord.File(io.BytesIO(data), filename=_UNFIT_FOR_A_FILE_NAME.sub("_", name) or "file")
        with delivery_errors():
            message = await self._channel(place).send(
                caption or None, file=file, allowed_mentions=NOBODY, suppress_embeds=True
            )
        return str(message.id)

    def _channel(self, place: Place) -> discord.PartialMessageable:
        """By its number alone: whether it is known to us or not, Discord decides what may be done there."""
        return self._connected().get_partial_messageable(int(place.thread_id or place.chat_id))

    def _connected(self) -> discord.Client:
        if self.client is None or self.client.is_closed():
            raise Unreachable("(not connected)", maybe_done=False)
        return self.client


def _shown(text: str, formatted: bool) -> str:
    """Discord shows Markdown by itself, all but tables."""
    if not formatted:
        return text
    with_tables = readable_tables(text)
    return with_tables if len(with_tables) <= LIMIT else text


def _reference(channel: discord.PartialMessageable, message_id: str) -> discord.MessageReference:
    return discord.MessageReference(
        message_id=int(message_id), channel_id=channel.id, fail_if_not_exists=False
    )


def _row(buttons: Sequence[Button]) -> discord.ui.View | None:
    if not buttons:
        return None
    view = discord.ui.View(timeout=None)
    for button in buttons:
        view.add_item(discord.ui.Button(label=button.label[:_LONGEST_LABEL], custom_id=button.data, row=0))
    # Presses are events of the client, whoever made the button; the library need not remember this one.
    view.stop()
    return view
