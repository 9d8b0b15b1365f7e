"""Bots, chats, topics and messages as a person sees them on the screen."""

from __future__ import annotations

import itertools
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from tests.fakes.telegram.files import Attachment
from tests.fakes.telegram.text import Entity, Formatted
from tests.fakes.telegram.updates import UpdateQueue
from tests.fakes.telegram.waiting import seen
from tests.support.watch import PATIENCE, Watch

T = TypeVar("T")

GENERAL_TOPIC = 1


@dataclass(frozen=True, slots=True)
class User:
    id: int
    first_name: str
    is_bot: bool = False
    last_name: str = ""
    username: str = ""
    language_code: str = ""

    def json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"id": self.id, "is_bot": self.is_bot, "first_name": self.first_name}
        for name in ("last_name", "username", "language_code"):
            if value := getattr(self, name):
                body[name] = value
        return body


@dataclass(slots=True, eq=False)
class BotAccount:
    token: str
    user: User
    reads_everything: bool = True
    """Privacy mode off. On, a group's bot gets commands, mentions and replies to itself only."""
    chats: dict[int, Chat] = field(default_factory=dict)
    """The chats this bot can name, by id."""
    updates: UpdateQueue = field(default_factory=UpdateQueue)
    commands: dict[tuple[str, str], list[dict[str, str]]] = field(default_factory=dict)
    """Command lists by scope (as compact JSON) and language code."""

    @property
    def id(self) -> int:
        return self.user.id

    @property
    def username(self) -> str:
        return self.user.username


@dataclass(frozen=True, slots=True)
class Topic:
    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Seen:
    """Something that happened to a message."""

    what: Literal["sent", "edited", "deleted"]
    message: Message
    text: str
    at: float


@dataclass(frozen=True, slots=True)
class ChatAction:
    action: str
    thread: int | None
    at: float


@dataclass(slots=True, eq=False)
class Message:
    id: int
    chat: Chat
    sender: User
    date: int
    text: str = ""
    """The text, or the caption of the attachment."""
    entities: list[Entity] = field(default_factory=list)
    keyboard: list[list[dict[str, Any]]] = field(default_factory=list)
    attachment: Attachment | None = None
    reply_to: Message | None = None
    quote: dict[str, Any] | None = None
    thread: int | None = None
    in_topic: bool = False
    media_group_id: str = ""
    service: dict[str, Any] = field(default_factory=dict)
    silent: bool = False
    edit_date: int | None = None
    deleted: bool = False
    versions: list[str] = field(default_factory=list)
    """Every text it ever showed, the present one last."""
    reactions: dict[int, list[str]] = field(default_factory=dict)
    """Emoji by the id of who reacted."""

    @property
    def edited(self) -> bool:
        return self.edit_date is not None

    @property
    def from_bot(self) -> bool:
        return self.sender.is_bot

    @property
    def buttons(self) -> list[str]:
        return [button["text"] for row in self.keyboard for button in row]

    def button(self, text: str) -> dict[str, Any]:
        for button in (button for row in self.keyboard for button in row):
            if button["text"] == text:
                return button
        raise AssertionError(f"no button {text!r} under {self.text!r}, only {self.buttons}")

    def show(self, content: Formatted, keyboard: list[list[dict[str, Any]]]) -> None:
        self.text, self.entities, self.keyboard = content.text, content.entities, keyboard
        self.versions.append(content.text)

    def json(self, *, nested: bool = False) -> dict[str, Any]:
        body: dict[str, Any] = {
            "message_id": self.id,
            "from": self.sender.json(),
            "chat": self.chat.json(),
            "date": self.date,
        }
        if self.edit_date is not None:
            body["edit_date"] = self.edit_date
        if self.thread is not None:
            body["message_thread_id"] = self.thread
        if self.in_topic:
            body["is_topic_message"] = True
        if (above := self._replied()) is not None and not nested:
            body["reply_to_message"] = above.json(nested=True)
        if self.quote is not None and not nested:
            body["quote"] = self.quote
        if self.media_group_id:
            body["media_group_id"] = self.media_group_id
        return body | self._content() | self.service

    def _replied(self) -> Message | None:
        """In a topic, what replies to nothing else is told as a reply to the topic's opening."""
        if self.reply_to is None and self.in_topic and self.thread not in (None, self.id):
            return self.chat.topic_opening(self.thread or 0)
        return self.reply_to

    def _content(self) -> dict[str, Any]:
        body: dict[str, Any] = {}
        text_field, entities_field = "text", "entities"
        if self.attachment is not None:
            body[self.attachment.kind] = self.attachment.details
            text_field, entities_field = "caption", "caption_entities"
        if self.text:
            body[text_field] = self.text
        if self.entities:
            body[entities_field] = self.entities
        if self.keyboard:
            body["reply_markup"] = {"inline_keyboard": self.keyboard}
        return body


class Chat:
    """A private chat of a person with one bot, a group, or a supergroup (a forum when it has topics)."""

    def __init__(
        self,
        id: int,
        kind: Literal["private", "group", "supergroup"],
        *,
        title: str = "",
        person: User | None = None,
        is_forum: bool = False,
        server_watch: Watch,
    ) -> None:
        self.id = id
        self.kind = kind
        self.title = title
        self.person = person
        self.is_forum = is_forum
        self.messages: list[Message] = []
        """Visible messages in order."""
        self.history: list[Seen] = []
        self.actions: list[ChatAction] = []
        """Typing and the like."""
        self.topics: dict[int, Topic] = {}
        self.closed_topics: set[int] = set()
        self.members: dict[int, str] = {}
        """Standing by user id: creator, administrator, member, left, kicked."""
        self.users: dict[int, User] = {}
        self.bots: list[BotAccount] = []
        self.migrated_to: Chat | None = None
        self.blocked = False
        """The person has blocked the bot of this private chat."""
        # A supergroup begins with the note of its founding, which is also the number of its General topic.
        self._numbers = itertools.count(2 if kind == "supergroup" else 1)
        self._by_id: dict[int, Message] = {}
        self._watch = Watch()
        self._server_watch = server_watch

    @property
    def from_bot(self) -> list[Message]:
        """The visible messages of bots."""
        return [message for message in self.messages if message.from_bot]

    @property
    def texts(self) -> list[str]:
        """Texts of the bots' visible messages."""
        return [message.text for message in self.from_bot]

    def find(self, message_id: int) -> Message | None:
        """A message that is still there."""
        message = self._by_id.get(message_id)
        return None if message is None or message.deleted else message

    def post(self, sender: User, content: Formatted | None = None, **fields: Any) -> Message:
        message = Message(next(self._numbers), self, sender, int(time.time()), **fields)
        if content is not None:
            message.show(content, message.keyboard)
        self._by_id[message.id] = message
        self.messages.append(message)
        self._record("sent", message)
        return message

    def edit(self, message: Message, content: Formatted, keyboard: list[list[dict[str, Any]]]) -> None:
        message.show(content, keyboard)
        message.edit_date = int(time.time())
        self._record("edited", message)

    def delete(self, message: Message) -> None:
        message.deleted = True
        self.messages.remove(message)
        self._record("deleted", message)

    def topic(self, name: str) -> Topic:
        """A new topic of this forum; its id is that of the service message that opens it."""
        assert self.is_forum, f"{self.title} is no forum"
        creator = next(iter(self.users.values()))
        service = {"forum_topic_created": {"name": name, "icon_color": 7322096}}
        opening = self.post(creator, service=service, in_topic=True)
        opening.thread = opening.id
        self.topics[opening.id] = Topic(opening.id, name)
        return self.topics[opening.id]

    def topic_opening(self, thread: int) -> Message | None:
        return self._by_id.get(thread)

    def message(self, wanted: Callable[[Message], bool], timeout: float = PATIENCE) -> Awaitable[Message]:
        """Until a bot's visible message is like that; gives the first."""
        return self._seen(lambda: next((m for m in self.from_bot if wanted(m)), None), timeout)

    def answer_after(
        self, message: Message, wanted: Callable[[Message], bool] | None = None, timeout: float = PATIENCE
    ) -> Awaitable[Message]:
        """Until a bot has said something below this message (and it is as `wanted`); gives the first."""
        return self.message(lambda m: m.id > message.id and (wanted is None or wanted(m)), timeout)

    def gone(self, message: Message, timeout: float = PATIENCE) -> Awaitable[bool]:
        """Until the message is deleted."""
        return self.wait_for(lambda: message.deleted, timeout)

    def typing(self, count: int = 1, timeout: float = PATIENCE) -> Awaitable[bool]:
        """Until that many chat actions have been seen."""
        return self.wait_for(lambda: len(self.actions) >= count, timeout)

    def wait_for(self, condition: Callable[[], bool], timeout: float = PATIENCE) -> Awaitable[bool]:
        """Until the condition holds; it is looked at after every change in this chat."""
        return self._seen(lambda: condition() or None, timeout)

    def _seen(self, look: Callable[[], T | None], timeout: float) -> Awaitable[T]:
        return seen(self._watch, look, timeout, self._on_screen)

    def _on_screen(self) -> str:
        lines = [f"  {m.id} {m.sender.first_name}: {m.text[:200]}" for m in self.messages[-12:]]
        return f"Chat {self.id} shows:\n" + "\n".join(lines)

    def changed(self) -> None:
        self._watch.changed()
        self._server_watch.changed()

    def json(self) -> dict[str, Any]:
        if self.person is not None:
            names = ("first_name", "last_name", "username")
            person = {name: value for name, value in self.person.json().items() if name in names}
            return {"id": self.id, "type": "private", **person}
        body: dict[str, Any] = {"id": self.id, "type": self.kind, "title": self.title}
        return body | {"is_forum": True} if self.is_forum else body

    def _record(self, what: Literal["sent", "edited", "deleted"], message: Message) -> None:
        self.history.append(Seen(what, message, message.text, time.monotonic()))
        self.changed()
