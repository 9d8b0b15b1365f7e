"""REST endpoints for channels, threads, messages and reactions, and what the bot may do in them."""

from __future__ import annotations

from typing import Any

from tests.fakes.discord.errors import Form, Json, invalid, plain, refused
from tests.fakes.discord.faults import Call
from tests.fakes.discord.mentions import EVERYTHING, allowed_in
from tests.fakes.discord.messages import Attachment, Flag, Message, Type, Upload
from tests.fakes.discord.places import Channel, Kind, May, User
from tests.fakes.discord.rules import check_message
from tests.fakes.discord.service_state import DiscordState, Intent

SETTABLE_FLAGS = Flag.SUPPRESS_EMBEDS | Flag.SUPPRESS_NOTIFICATIONS
SYSTEM = (Type.THREAD_CREATED, Type.THREAD_STARTER_MESSAGE)


class ChannelRoutes:
    def __init__(self, state: DiscordState, *, granted: Intent) -> None:
        self.state = state
        self._reads_content = Intent.MESSAGE_CONTENT in granted

    def get_channel(self, call: Call) -> Json:
        return self._channel(call).json()

    def edit_channel(self, call: Call) -> Json:
        """Of threads only: name, archived, locked. One's own thread needs no permission."""
        channel, bot = self._channel(call), self.state.bot
        if not channel.is_thread:
            raise refused(50024)
        if channel.owner is not bot and not channel.may(bot, May.MANAGE_THREADS):
            raise refused(50013)
        channel.name = call.json.get("name", channel.name)
        channel.archived = call.json.get("archived", channel.archived)
        channel.locked = call.json.get("locked", channel.locked)
        self.state.channel_changed(channel)
        return channel.json()

    def create_dm(self, call: Call) -> Json:
        user = self.state.users.get(as_id("recipient_id", call.json.get("recipient_id")))
        if user is None:
            raise refused(10013)
        if user is self.state.bot:
            raise refused(50007)
        return self.state.open_dm(user).json()

    def type(self, call: Call) -> None:
        channel = self._channel(call)
        self._check_may_write(channel)
        self.state.type(channel, self.state.bot)

    def get_messages(self, call: Call) -> list[Json]:
        """Newest first. `after` gives the ones that follow next, not the newest."""
        channel = self._channel(call)
        limit = self._limit(call)
        marks = [mark for mark in ("before", "after", "around") if mark in call.query]
        if len(marks) > 1:
            message = "Only one of around, before and after may be given."
            raise invalid(marks[1], "MUTUALLY_EXCLUSIVE", message)
        messages = [m for m in channel.messages if m.only_for is None]
        if not channel.may(self.state.bot, May.READ_HISTORY):
            messages = []
        if "after" in call.query:
            messages = [m for m in messages if m.id > as_id("after", call.query["after"])][:limit]
        elif "before" in call.query:
            messages = [m for m in messages if m.id < as_id("before", call.query["before"])]
        elif "around" in call.query:
            middle = as_id("around", call.query["around"])
            messages = sorted(messages, key=lambda m: abs(m.id - middle))[:limit]
            messages.sort(key=lambda m: m.id)
        return [self._json(message) for message in reversed(messages[-limit:])]

    def _limit(self, call: Call) -> int:
        limit = as_id("limit", call.query.get("limit", "50"))
        if not 1 <= limit <= 100:
            code = "NUMBER_TYPE_MAX" if limit > 100 else "NUMBER_TYPE_MIN"
            raise invalid("limit", code, "int value should be between 1 and 100.")
        return limit

    def get_message(self, call: Call) -> Json:
        return self._json(self._message(call))

    def send_message(self, call: Call) -> Json:
        channel, bot = self._channel(call), self.state.bot
        self._check_may_write(channel)
        if call.files and not channel.may(bot, May.ATTACH_FILES):
            raise refused(50013)
        body = call.json
        check_message(Form(), body, call.files, kept=frozenset())
        nonce = body.get("nonce")
        if nonce is not None and body.get("enforce_nonce"):
            sent = self.state.already_sent(bot, nonce)
            if sent is not None:
                return self._json(sent)
        reply_to = self._replied_to(channel, body.get("message_reference"))
        if is_empty(body, call.files):
            raise refused(50006)
        message = self.state.post(
            channel,
            bot,
            body.get("content") or "",
            uploads=described(body, call.files),
            allowed=allowed_in(body, EVERYTHING),
            reply_to=reply_to,
            type=Type.DEFAULT if reply_to is None else Type.REPLY,
            embeds=body.get("embeds") or [],
            components=body.get("components") or [],
            flags=Flag(body.get("flags") or 0) & SETTABLE_FLAGS,
            nonce=nonce,
        )
        return self._json(message)

    def edit_message(self, call: Call) -> Json:
        message = self._message(call)
        if message.author is not self.state.bot:
            raise refused(50005)
        if message.type in SYSTEM:
            raise refused(50021)
        if message.channel.archived:
            raise refused(50083)
        edit_with(self.state, message, call.json, call.files, Form(), default=EVERYTHING)
        return self._json(message)

    def delete_message(self, call: Call) -> None:
        message = self._message(call)
        channel, bot = message.channel, self.state.bot
        if message.author is not bot and channel.guild is None:
            raise refused(50003)
        if message.author is not bot and not channel.may(bot, May.MANAGE_MESSAGES):
            raise refused(50013)
        self.state.delete(message)

    def add_reaction(self, call: Call) -> None:
        message = self._message(call)
        if not message.channel.may(self.state.bot, May.REACT | May.READ_HISTORY):
            raise refused(50013)
        if call.ids["emoji"].isascii():
            raise refused(10014)
        self.state.react(message, self.state.bot, call.ids["emoji"], adds=True)

    def remove_reaction(self, call: Call) -> None:
        self.state.react(self._message(call), self.state.bot, call.ids["emoji"], adds=False)

    def create_thread(self, call: Call) -> Json:
        channel = self._channel(call, May.OPEN_THREADS)
        kind = call.json.get("type", Kind.PRIVATE_THREAD)
        form = _checked_thread_name(call)
        form.check_choice("type", kind, (int(Kind.PUBLIC_THREAD), int(Kind.PRIVATE_THREAD)))
        form.raise_if_wrong()
        if channel.kind is not Kind.TEXT:
            raise refused(50024)
        return self.state.open_thread(channel, call.json["name"], self.state.bot, kind=Kind(kind)).json()

    def create_thread_on_message(self, call: Call) -> Json:
        channel, starter = self._channel(call, May.OPEN_THREADS), self._message(call)
        _checked_thread_name(call).raise_if_wrong()
        if channel.kind is not Kind.TEXT:
            raise refused(50024)
        if starter.id in self.state.channels:
            raise refused(160004)
        return self.state.open_thread(channel, call.json["name"], self.state.bot, starter=starter).json()

    def join_thread(self, call: Call) -> None:
        thread = self._channel(call)
        if not thread.is_thread:
            raise refused(50024)
        self.state.join_thread(thread, self.state.bot)

    def get_active_threads(self, call: Call) -> Json:
        guild = self.state.guilds.get(as_id("guild_id", call.ids["guild_id"]))
        if guild is None:
            raise refused(10004)
        threads = [t.json() for t in guild.threads() if t.seen_by_bot() and not t.archived]
        return {"threads": threads, "members": []}

    def get_file(self, call: Call) -> Attachment:
        """An attachment's address is signed and expires."""
        file = self.state.files.get(as_id("file_id", call.ids["file_id"]))
        if file is None or int(call.query.get("ex", "0"), 16) < self.state.clock.now():
            raise plain(404, "Not Found")
        return file

    def _channel(self, call: Call, permission: May = May.VIEW) -> Channel:
        channel = self.state.channels.get(as_id("channel_id", call.ids["channel_id"]))
        if channel is None:
            raise refused(10003)
        if not channel.seen_by_bot():
            raise refused(50001)
        if not channel.may(self.state.bot, permission):
            raise refused(50013)
        return channel

    def _message(self, call: Call) -> Message:
        channel = self._channel(call)
        message = self.state.messages.get(as_id("message_id", call.ids["message_id"]))
        if message is None or message.channel is not channel or message.deleted or message.only_for:
            raise refused(10008)
        return message

    def _check_may_write(self, channel: Channel) -> None:
        if channel.recipient is not None:
            self._check_may_dm(channel.recipient)
        if not channel.may_write(self.state.bot):
            raise refused(50013)
        if channel.archived and channel.locked:
            raise refused(50083)

    def _check_may_dm(self, user: User) -> None:
        if user.refuses_dms or user.bot:
            raise refused(50007)
        if not self.state.shares_guild_with_bot(user):
            raise refused(50278)

    def _replied_to(self, channel: Channel, reference: Json | None) -> Message | None:
        if not reference or reference.get("message_id") is None:
            return None
        quoted = self.state.messages.get(as_id("message_reference.message_id", reference["message_id"]))
        if quoted is not None and quoted.channel is channel and not quoted.deleted and not quoted.only_for:
            if not channel.may(self.state.bot, May.READ_HISTORY):
                raise refused(160002)
            if quoted.type in SYSTEM:
                message = "Cannot reply to a system message"
                raise invalid("message_reference", "REPLIES_CANNOT_REPLY_TO_SYSTEM_MESSAGE", message)
            return quoted
        if reference.get("fail_if_not_exists", True):
            raise invalid("message_reference", "MESSAGE_REFERENCE_UNKNOWN_MESSAGE", "Unknown message")
        return None

    def _json(self, message: Message) -> Json:
        return message.json(has_content_intent=self._reads_content)


def _checked_thread_name(call: Call) -> Form:
    form = Form()
    form.check_length("name", call.json.get("name") or "", least=1, most=100)
    return form


def as_id(path: str, value: Any) -> int:
    if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()):
        return int(value)
    raise invalid(path, "NUMBER_TYPE_COERCE", f'Value "{value}" is not snowflake.')


def is_empty(body: Json, files: dict[int, Upload]) -> bool:
    """Buttons alone are nothing to look at, nor is white space."""
    return not ((body.get("content") or "").strip() or body.get("embeds") or files)


def described(body: Json, files: dict[int, Upload]) -> list[Upload]:
    """The uploads in order, with the names and descriptions given in `attachments`."""
    listed = {str(entry.get("id")): entry for entry in body.get("attachments") or []}
    uploads = []
    for number, file in sorted(files.items()):
        entry = listed.get(str(number), {})
        name = entry.get("filename") or file.filename
        uploads.append(Upload(name, file.data, description=entry.get("description")))
    return uploads


def edit_with(
    state: DiscordState, message: Message, body: Json, files: dict[int, Upload], form: Form, *, default: Json
) -> None:
    """Changes what the body names and leaves the rest. Raises Refused."""
    kept = frozenset(str(file.id) for file in message.attachments)
    check_message(form, body, files, kept=kept)
    changes: Json = {name: body[name] or [] for name in ("embeds", "components") if name in body}
    if "content" in body:
        changes["content"] = body["content"] or ""
    if "attachments" in body or files:
        listed = {str(entry.get("id")) for entry in body.get("attachments") or []}
        old = [f for f in message.attachments if "attachments" not in body or str(f.id) in listed]
        changes["attachments"] = old + [state.store(message.channel, u) for u in described(body, files)]
    after = {name: changes.get(name, getattr(message, name)) for name in ("content", "embeds", "attachments")}
    if not (after["content"].strip() or after["embeds"] or after["attachments"]):
        raise refused(50006)
    state.edit(message, allowed=allowed_in(body, default), **changes)
