"""People, other bots and webhooks: they write, use commands and press buttons, as their client lets them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tests.fakes.discord.commands import (
    ATTACHMENT,
    BOOLEAN,
    CHANNEL,
    GROUP,
    INTEGER,
    NUMBER,
    ROLE,
    STRING,
    SUBCOMMAND,
    USER,
)
from tests.fakes.discord.errors import Json
from tests.fakes.discord.interactions import COMMAND, COMPONENT, Interaction, pressable
from tests.fakes.discord.mentions import EVERYTHING
from tests.fakes.discord.messages import NO_FLAGS, Flag, Message, Type, Upload
from tests.fakes.discord.places import Channel, May, Role, User

if TYPE_CHECKING:
    from tests.fakes.discord.server import FakeDiscord

MAX_TYPED = 2000


class NotPossible(Exception):
    """A person's client does not let them do this."""


class Person(User):
    """Verbs that take a channel default to the direct chat with the bot."""

    def __init__(self, server: FakeDiscord, snowflake: int, name: str, *, bot: bool = False) -> None:
        super().__init__(snowflake, name, bot)
        self._server = server
        self._scene = server.state

    def dm(self) -> Channel:
        return self._scene.open_dm(self)

    async def says(
        self,
        text: str = "",
        *,
        channel: Channel | None = None,
        reply_to: Message | None = None,
        pings_author: bool = True,
        mentions: User | Sequence[User] = (),
        attachments: Sequence[Upload] = (),
    ) -> Message:
        """`mentions` are put before the text. `pings_author`: the switch beside a reply."""
        channel = channel or self.dm()
        self._check_may_write(channel)
        named = [mentions] if isinstance(mentions, User) else mentions
        text = " ".join([*(user.mention for user in named), text])
        if len(text) > MAX_TYPED:
            raise NotPossible(f"a person's message has at most {MAX_TYPED} characters, not {len(text)}")
        if not text.strip() and not attachments:
            raise NotPossible("an empty message cannot be sent")
        is_voice = any(upload.duration is not None for upload in attachments)
        message = self._scene.post(
            channel,
            self,
            text,
            uploads=attachments,
            allowed={**EVERYTHING, "replied_user": pings_author},
            reply_to=reply_to,
            type=Type.DEFAULT if reply_to is None else Type.REPLY,
            flags=Flag.VOICE_MESSAGE if is_voice else NO_FLAGS,
        )
        await self._server.gateway.flush()
        return message

    async def edits(self, message: Message, text: str) -> None:
        if message.author is not self:
            raise NotPossible("one edits only one's own messages")
        pings_author = message.reply_to is not None and message.reply_to.author in message.mentioned.users
        self._scene.edit(message, content=text, allowed={**EVERYTHING, "replied_user": pings_author})
        await self._server.gateway.flush()

    async def deletes(self, message: Message) -> None:
        if message.author is not self and not message.channel.may(self, May.MANAGE_MESSAGES):
            raise NotPossible("one deletes only one's own messages")
        self._scene.delete(message)
        await self._server.gateway.flush()

    async def reacts(self, message: Message, emoji: str) -> None:
        self._scene.react(message, self, emoji, adds=True)
        await self._server.gateway.flush()

    async def takes_back(self, message: Message, emoji: str) -> None:
        self._scene.react(message, self, emoji, adds=False)
        await self._server.gateway.flush()

    async def types(self, channel: Channel | None = None) -> None:
        self._scene.type(channel or self.dm(), self)
        await self._server.gateway.flush()

    async def opens_thread(
        self, name: str, *, channel: Channel | None = None, on: Message | None = None
    ) -> Channel:
        """In a channel, or on a message."""
        place = on.channel if on is not None else channel
        if place is None or place.guild is None:
            raise NotPossible("threads are opened in a guild's channel")
        thread = self._scene.open_thread(place, name, self, starter=on)
        await self._server.gateway.flush()
        return thread

    async def joins(self, thread: Channel) -> None:
        self._scene.join_thread(thread, self)
        await self._server.gateway.flush()

    async def uses(self, command: str, *, channel: Channel | None = None, **options: Any) -> Interaction:
        """A slash command; "group sub" for a subcommand. Only what is registered, filled in as its schema says."""
        channel = channel or self.dm()
        if not channel.may(self, May.USE_COMMANDS):
            raise NotPossible(f"{self.name} may not use commands in {channel!r}")
        name, *path = command.removeprefix("/").split()
        registered = self._server.commands.find(name, channel.guild)
        if registered is None:
            raise NotPossible(f"/{name} is not offered here; registered: {self._server.commands.names()}")
        resolved: Json = {}
        data: Json = {"id": registered["id"], "name": name, "type": 1}
        filled = self._fill(registered, path, options, channel, resolved)
        data |= {key: value for key, value in (("options", filled), ("resolved", resolved)) if value}
        if "guild_id" in registered:
            data["guild_id"] = registered["guild_id"]
        interaction = self._server.interactions.begin(COMMAND, self, channel, data)
        await self._server.gateway.flush()
        return interaction

    async def presses(self, message: Message, label: str) -> Interaction:
        """Raise LookupError if the button does not exist."""
        if message.deleted or message.only_for not in (None, self) or not message.channel.may(self, May.VIEW):
            raise NotPossible(f"{self.name} does not see {message!r}")
        button = pressable(message, label)
        return await self.presses_custom_id(message, button["custom_id"])

    async def presses_custom_id(self, message: Message, custom_id: str) -> Interaction:
        """As a client does that still shows buttons the message had a moment ago."""
        data: Json = {"custom_id": custom_id, "component_type": 2, "id": 1}
        interaction = self._server.interactions.begin(COMPONENT, self, message.channel, data, message)
        await self._server.gateway.flush()
        return interaction

    def _check_may_write(self, channel: Channel) -> None:
        if channel.recipient not in (None, self):
            raise NotPossible("this is somebody else's direct chat")
        if channel.guild is not None and not channel.may_write(self):
            raise NotPossible(f"{self.name} may not write in {channel!r}")

    def _fill(
        self, schema: Json, path: list[str], values: dict[str, Any], channel: Channel, resolved: Json
    ) -> list[Json]:
        options: list[Json] = schema.get("options") or []
        if path:
            sub = next(
                (o for o in options if o["name"] == path[0] and o["type"] in (SUBCOMMAND, GROUP)), None
            )
            if sub is None:
                raise NotPossible(f"there is no subcommand {path[0]!r}")
            inner = self._fill(sub, path[1:], values, channel, resolved)
            return [{"name": sub["name"], "type": sub["type"], "options": inner}]
        by_name = {option["name"]: option for option in options}
        missing = [name for name, o in by_name.items() if o.get("required") and name not in values]
        unknown = [name for name in values if name not in by_name]
        if missing or unknown or any(o["type"] in (SUBCOMMAND, GROUP) for o in options):
            raise NotPossible(f"missing: {missing}, unknown: {unknown}, the command has {sorted(by_name)}")
        return [self._filled(by_name[name], value, channel, resolved) for name, value in values.items()]

    def _filled(self, option: Json, value: Any, channel: Channel, resolved: Json) -> Json:
        kind = option["type"]
        types: dict[int, type | tuple[type, ...]] = {
            STRING: str,
            INTEGER: int,
            BOOLEAN: bool,
            NUMBER: (int, float),
            USER: User,
            CHANNEL: Channel,
            ROLE: Role,
            ATTACHMENT: Upload,
        }
        if not isinstance(value, types[kind]) or (kind in (INTEGER, NUMBER) and isinstance(value, bool)):
            raise NotPossible(f"option {option['name']!r} does not take {value!r}")
        _check_bounds(option, value)
        return {
            "name": option["name"],
            "type": kind,
            "value": self._resolve(kind, value, channel, resolved),
        }

    def _resolve(self, kind: int, value: Any, channel: Channel, resolved: Json) -> Any:
        """Things are sent by id, with their description beside."""
        if kind not in (USER, CHANNEL, ROLE, ATTACHMENT):
            return value
        shelves = {USER: "users", CHANNEL: "channels", ROLE: "roles", ATTACHMENT: "attachments"}
        thing = self._scene.store(channel, value) if kind == ATTACHMENT else value
        shelf = resolved.setdefault(shelves[kind], {})
        shelf[str(thing.id)] = thing.json()
        if kind == USER and channel.guild is not None and value.id in channel.guild.members:
            member = {**channel.guild.members[value.id].partial(), "permissions": "0"}
            resolved.setdefault("members", {})[str(value.id)] = member
        return str(thing.id)


def _check_bounds(option: Json, value: Any) -> None:
    choices = [choice["value"] for choice in option.get("choices") or []]
    if choices and value not in choices:
        raise NotPossible(f"option {option['name']!r} offers {choices}, not {value!r}")
    size = len(value) if isinstance(value, str) else value if isinstance(value, int | float) else 0
    suffix = "length" if isinstance(value, str) else "value"
    least, most = option.get(f"min_{suffix}"), option.get(f"max_{suffix}")
    if (least is not None and size < least) or (most is not None and size > most):
        raise NotPossible(f"option {option['name']!r} takes {least} to {most}, not {size}")


class Webhook:
    """Writes into one channel under a name of its own."""

    def __init__(self, server: FakeDiscord, channel: Channel, name: str) -> None:
        self._server = server
        self._channel = channel
        self._author = User(server.state.new_id(), name, bot=True)

    async def says(self, text: str) -> Message:
        state = self._server.state
        message = state.post(self._channel, self._author, text, webhook_id=self._author.id)
        await self._server.gateway.flush()
        return message
