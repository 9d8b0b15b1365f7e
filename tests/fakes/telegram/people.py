"""People at their Telegram clients: they write, paste, edit, press buttons, react, block."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tests.fakes.telegram.files import Attachment
from tests.fakes.telegram.service_state import CallbackQuery, TelegramState, placement
from tests.fakes.telegram.state import BotAccount, Chat, Message, Topic, User
from tests.fakes.telegram.text import MAX_CAPTION, MAX_TEXT, Entity, Formatted, trimmed, units

_FOUND = re.compile(
    r"(?P<bot_command>(?<![\w/@])/[A-Za-z0-9_]{1,64}(?:@\w{3,32})?)"
    r"|(?P<mention>(?<![\w@])@[A-Za-z]\w{3,31})"
    r"|(?P<url>https?://[^\s<>\"]+[^\s<>\".,;:!?)])"
)


class Person:
    """Every verb returns when Telegram has taken it and the bots' updates are on their way.

    `chat` is the private chat with the server's first bot when it is not given; `thread` is a topic of a forum.
    """

    def __init__(self, state: TelegramState, user: User) -> None:
        self._scene = state
        self.user = user

    @property
    def id(self) -> int:
        return self.user.id

    @property
    def chat(self) -> Chat:
        """The private chat with the first bot."""
        return self.chat_with(self._scene.bot)

    def chat_with(self, bot: BotAccount) -> Chat:
        return self._scene.private(self.user, bot)

    async def says(
        self,
        text: str,
        *,
        chat: Chat | None = None,
        reply_to: Message | None = None,
        quote: str = "",
        thread: Topic | int | None = None,
        entities: Sequence[Entity] = (),
        mentions: Mapping[str, User] | None = None,
    ) -> Message:
        """`mentions`: words of the text that are links to people without a username."""
        content = trimmed(Formatted(text, _entities(text, entities, mentions or {})))
        assert content.text, "a client does not send an empty message"
        assert units(content.text) <= MAX_TEXT, "a client splits this; use pastes()"
        return self._post(chat, content, reply_to, thread, quote=_quote(reply_to, quote))

    async def pastes(
        self, text: str, *, chat: Chat | None = None, thread: Topic | int | None = None
    ) -> list[Message]:
        """A text too long for one message: the client sends it in full pieces, one right after the other."""
        return [await self.says(piece, chat=chat, thread=thread) for piece in split_like_a_client(text)]

    async def sends_photo(self, data: bytes, caption: str = "", **where: Any) -> Message:
        return self._send_file(self._scene.files.photo(data), caption, **where)

    async def sends_document(
        self,
        data: bytes,
        name: str,
        caption: str = "",
        *,
        mime: str = "",
        size: int | None = None,
        **where: Any,
    ) -> Message:
        """`size`: what Telegram says about it, when making so many bytes would be a waste."""
        return self._send_file(self._scene.files.document(data, name, mime, size), caption, **where)

    async def sends_voice(self, data: bytes, seconds: int = 3, **where: Any) -> Message:
        return self._send_file(self._scene.files.voice(data, seconds), "", **where)

    async def sends_album(self, photos: Sequence[bytes], caption: str = "", **where: Any) -> list[Message]:
        """Several photos at once: a message each, the caption under the first."""
        album = str(13_000_000_000_000 + next(self._scene.numbers))
        return [
            self._send_file(
                self._scene.files.photo(data), caption if number == 0 else "", media_group_id=album, **where
            )
            for number, data in enumerate(photos)
        ]

    async def edits(self, message: Message, text: str) -> None:
        assert message.sender == self.user, "people edit only what they wrote"
        content = trimmed(Formatted(text, _entities(text, (), {})))
        message.chat.edit(message, content, [])
        self._scene.tell("edited_message", message)

    async def deletes(self, message: Message) -> None:
        """Bots are not told of this."""
        message.chat.delete(message)

    async def reacts(self, message: Message, emoji: str = "") -> None:
        """Without an emoji the reaction is taken back. In groups only administrators are told."""
        before = message.reactions.get(self.id, [])
        message.reactions[self.id] = [emoji] if emoji else []
        payload = {
            "chat": message.chat.json(),
            "message_id": message.id,
            "user": self.user.json(),
            "date": int(time.time()),
            "old_reaction": [{"type": "emoji", "emoji": one} for one in before],
            "new_reaction": [{"type": "emoji", "emoji": one} for one in message.reactions[self.id]],
        }
        for bot in message.chat.bots:
            if message.chat.kind == "private" or message.chat.members.get(bot.id) == "administrator":
                bot.updates.add("message_reaction", payload)
        message.chat.changed()

    async def presses(self, message: Message, button: str) -> CallbackQuery:
        """The button under a bot's message, by its text."""
        assert not message.deleted, "the message with the button is gone"
        data = message.button(button)["callback_data"]
        return self.sends_callback(message, data)

    def sends_callback(self, message: Message, data: str) -> CallbackQuery:
        """Press a button with any data, as a forged client could, even if the button is gone."""
        bot = next(bot for bot in message.chat.bots if bot.user == message.sender)
        query = CallbackQuery(
            str(4_000_000_000_000 + next(self._scene.numbers)), message, self.user, data, self._scene.watch
        )
        self._scene.queries[query.id] = query
        payload = {
            "id": query.id,
            "from": self.user.json(),
            "message": message.json(),
            "chat_instance": str(message.chat.id * 7919),
            "data": data,
        }
        bot.updates.add("callback_query", payload)
        return query

    async def blocks(self, bot: BotAccount | None = None) -> None:
        chat = self.chat_with(bot or self._scene.bot)
        chat.blocked = True
        self._scene.tell_standing(chat, chat.bots[0], "member", "kicked")

    async def unblocks(self, bot: BotAccount | None = None) -> None:
        chat = self.chat_with(bot or self._scene.bot)
        chat.blocked = False
        self._scene.tell_standing(chat, chat.bots[0], "kicked", "member")

    def _send_file(
        self,
        attachment: Attachment,
        caption: str,
        *,
        chat: Chat | None = None,
        reply_to: Message | None = None,
        thread: Topic | int | None = None,
        media_group_id: str = "",
    ) -> Message:
        assert units(caption) <= MAX_CAPTION, "a client does not send so long a caption"
        content = trimmed(Formatted(caption, _entities(caption, (), {})))
        return self._post(
            chat, content, reply_to, thread, attachment=attachment, media_group_id=media_group_id
        )

    def _post(
        self,
        chat: Chat | None,
        content: Formatted,
        reply_to: Message | None,
        thread: Topic | int | None,
        **fields: Any,
    ) -> Message:
        chat = chat or self.chat
        assert chat.migrated_to is None, "the group has moved; write into the supergroup"
        if chat.kind != "private" and self.id not in chat.members:
            self._scene.join(chat, self.user)
        place = placement(chat, thread.id if isinstance(thread, Topic) else thread, reply_to)
        message = chat.post(self.user, content, **place, **fields)
        self._scene.tell("message", message)
        return message


def split_like_a_client(text: str) -> list[str]:
    """Pieces of at most 4096 units, broken at a line or a space where one is near the end."""
    pieces = []
    while units(text) > MAX_TEXT:
        end = len(text.encode("utf-16-le")[: 2 * MAX_TEXT].decode("utf-16-le", errors="ignore"))
        for mark in ("\n", " "):
            at = text.rfind(mark, end // 2, end)
            if at > 0:
                end = at + 1
                break
        pieces.append(text[:end])
        text = text[end:]
    return [piece for piece in [*pieces, text] if piece.strip()]


def _entities(text: str, given: Sequence[Entity], mentions: Mapping[str, User]) -> list[Entity]:
    found: list[Entity] = [
        {
            "type": match.lastgroup,
            "offset": units(text[: match.start()]),
            "length": units(match[0]),
        }
        for match in _FOUND.finditer(text)
    ]
    for words, user in mentions.items():
        before, hit, _ = text.partition(words)
        assert hit, f"{words!r} is not in the text"
        found.append(
            {"type": "text_mention", "offset": units(before), "length": units(words), "user": user.json()}
        )
    return sorted([*found, *given], key=lambda entity: (entity["offset"], -entity["length"]))


def _quote(reply_to: Message | None, quote: str) -> dict[str, Any] | None:
    if not quote:
        return None
    assert reply_to is not None and quote in reply_to.text, "one quotes a part of what one replies to"
    return {"text": quote, "position": units(reply_to.text.partition(quote)[0]), "is_manual": True}
