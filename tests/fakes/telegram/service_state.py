"""Everything behind the Bot API: who exists, which chats there are, who is told of what."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Awaitable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.telegram.errors import bad_request, forbidden
from tests.fakes.telegram.files import FileStore
from tests.fakes.telegram.limits import Limits
from tests.fakes.telegram.state import GENERAL_TOPIC, BotAccount, Chat, Message, User
from tests.fakes.telegram.text import cut
from tests.fakes.telegram.waiting import seen
from tests.support.watch import PATIENCE, Watch

TOKEN = re.compile(r"\d+:[A-Za-z0-9_-]+")


@dataclass(slots=True, eq=False)
class CallbackQuery:
    """A button pressed. The person's client shows a spinner until the bot answers."""

    id: str
    message: Message
    person: User
    data: str
    watch: Watch
    answer: dict[str, Any] | None = None
    expired: bool = False

    def expire(self) -> None:
        """Too old to be answered from now on."""
        self.expired = True

    def answered(self, timeout: float = PATIENCE) -> Awaitable[dict[str, Any]]:
        """Until the bot has answered; gives the answer's parameters."""
        return seen(self.watch, lambda: self.answer, timeout)


@dataclass(eq=False)
class TelegramState:
    limits: Limits = field(default_factory=Limits)
    watch: Watch = field(default_factory=Watch)
    files: FileStore = field(default_factory=FileStore)
    bots: dict[str, BotAccount] = field(default_factory=dict)
    """By token."""
    users: dict[int, User] = field(default_factory=dict)
    queries: dict[str, CallbackQuery] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def bot(self) -> BotAccount:
        """The first one."""
        return next(iter(self.bots.values()))

    @property
    def chats(self) -> dict[int, Chat]:
        """The first bot's chats by id; those of another are `other_bot.chats`."""
        return self.bot.chats

    def add_bot(
        self, token: str, username: str, first_name: str = "Hermes", *, reads_everything: bool = True
    ) -> BotAccount:
        assert TOKEN.fullmatch(token), f"a bot's token looks like 123456:ABC-def, not {token!r}"
        user = User(int(token.partition(":")[0]), first_name, is_bot=True, username=username)
        bot = BotAccount(token, user, reads_everything)
        self.bots[token] = bot
        self.users[user.id] = user
        return bot

    def private(self, person: User, bot: BotAccount) -> Chat:
        """The chat of the two, begun by the person where there was none."""
        chat = bot.chats.get(person.id)
        if chat is None:
            chat = Chat(person.id, "private", person=person, server_watch=self.watch)
            chat.bots = [bot]
            bot.chats[person.id] = chat
        return chat

    def found_group(
        self, title: str, chat_id: int, people: Iterable[User], bots: Iterable[BotAccount], *, forum: bool
    ) -> Chat:
        kind: Any = "supergroup" if chat_id <= -(10**12) else "group"
        chat = Chat(chat_id, kind, title=title, is_forum=forum, server_watch=self.watch)
        for number, person in enumerate(people):
            self.join(chat, person, "creator" if number == 0 else "member")
        for bot in bots:
            self.add_to_group(chat, bot)
        return chat

    def join(self, chat: Chat, user: User, standing: str = "member") -> None:
        chat.users[user.id] = user
        chat.members[user.id] = standing

    def add_to_group(self, chat: Chat, bot: BotAccount, standing: str = "member") -> None:
        """Members of a group do this; the bot is told by a my_chat_member update."""
        before = chat.members.get(bot.id, "left")
        bot.chats[chat.id] = chat
        if bot not in chat.bots:
            chat.bots.append(bot)
        self.join(chat, bot.user, standing)
        self.tell_standing(chat, bot, before, standing)

    def kick(self, chat: Chat, bot: BotAccount) -> None:
        before, chat.members[bot.id] = chat.members[bot.id], "kicked"
        self.tell_standing(chat, bot, before, "kicked")

    def tell_standing(self, chat: Chat, bot: BotAccount, before: str, after: str) -> None:
        actor = chat.person or next(iter(chat.users.values()))
        payload = {
            "chat": chat.json(),
            "from": actor.json(),
            "date": int(time.time()),
            "old_chat_member": membership(bot.user, before),
            "new_chat_member": membership(bot.user, after),
        }
        bot.updates.add("my_chat_member", payload)

    def tell(self, kind: str, message: Message, payload: dict[str, Any] | None = None) -> None:
        """An update about a message for every bot that may see it; a bot is never told of a bot's message."""
        for bot in message.chat.bots:
            if message.chat.members.get(bot.id) in ("left", "kicked") or message.chat.blocked:
                continue
            if kind not in ("message", "edited_message") or may_read(bot, message):
                bot.updates.add(kind, payload or message.json())

    def upgrade(self, group: Chat, chat_id: int) -> Chat:
        """The group becomes a supergroup with another id; the old one answers with the new address."""
        people = [user for user in group.users.values() if not user.is_bot]
        above = self.found_group(group.title, chat_id, people, (), forum=False)
        for bot in group.bots:
            above.bots.append(bot)
            bot.chats[above.id] = above
            self.join(above, bot.user, group.members[bot.id])
        group.migrated_to = above
        actor = people[0]
        self.tell("message", group.post(actor, service={"migrate_to_chat_id": above.id}))
        self.tell("message", above.post(actor, service={"migrate_from_chat_id": group.id}))
        return above

    def reach(self, bot: BotAccount, chat_id: Any) -> Chat:
        """The chat a call names. Raises Refused where the bot cannot go."""
        if chat_id in (None, ""):
            raise bad_request("chat_id is empty")
        chat = bot.chats.get(chat_id) if isinstance(chat_id, int) else None
        if chat is None:
            if isinstance(chat_id, int) and chat_id in self.users:
                raise forbidden("bot can't initiate conversation with a user")
            raise bad_request("chat not found")
        if chat.migrated_to is not None:
            raise bad_request(
                "group chat was upgraded to a supergroup chat", migrate_to_chat_id=chat.migrated_to.id
            )
        if chat.blocked:
            raise forbidden("bot was blocked by the user")
        if chat.kind != "private":
            _check_membership(chat, bot)
        return chat


def _check_membership(chat: Chat, bot: BotAccount) -> None:
    standing = chat.members.get(bot.id)
    if standing == "kicked":
        raise forbidden(f"bot was kicked from the {chat.kind} chat")
    if standing == "left":
        raise forbidden(f"bot is not a member of the {chat.kind} chat")


def may_read(bot: BotAccount, message: Message) -> bool:
    """Privacy mode: commands, mentions and replies to the bot; an administrator reads everything."""
    chat = message.chat
    if chat.kind == "private" or bot.reads_everything or chat.members.get(bot.id) == "administrator":
        return True
    if message.service or (message.reply_to is not None and message.reply_to.sender.id == bot.id):
        return True
    return any(_addresses(bot, message.text, entity) for entity in message.entities)


def _addresses(bot: BotAccount, text: str, entity: dict[str, Any]) -> bool:
    words = cut(text, entity["offset"], entity["length"]).lower()
    if entity["type"] == "bot_command":
        return "@" not in words or words.endswith("@" + bot.username.lower())
    return entity["type"] == "mention" and words == "@" + bot.username.lower()


def placement(chat: Chat, thread: int | None, reply_to: Message | None) -> dict[str, Any]:
    """Return the topic or reply thread of a message."""
    if chat.is_forum:
        topic = thread or (reply_to.thread if reply_to is not None else None)
        known = topic if topic not in (None, GENERAL_TOPIC) else None
        return {"thread": known, "in_topic": known is not None, "reply_to": reply_to}
    if chat.kind == "supergroup" and reply_to is not None:
        return {"thread": reply_to.thread or reply_to.id, "reply_to": reply_to}
    return {"reply_to": reply_to}


_RIGHTS = (
    "can_be_edited", "is_anonymous", "can_manage_chat", "can_delete_messages", "can_manage_video_chats",
    "can_restrict_members", "can_promote_members", "can_change_info", "can_invite_users",
    "can_post_stories", "can_edit_stories", "can_delete_stories",
)  # fmt: skip


def membership(user: User, standing: str) -> dict[str, Any]:
    """A ChatMember."""
    body: dict[str, Any] = {"user": user.json(), "status": standing}
    if standing == "administrator":
        return body | {right: right == "can_delete_messages" for right in _RIGHTS}
    if standing == "creator":
        return body | {"is_anonymous": False}
    return body | {"until_date": 0} if standing == "kicked" else body
