"""Interactions: a command used or a button pressed, the answer due in three seconds, and what may follow it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from tests.fakes.discord.channels import described, edit_with, is_empty
from tests.fakes.discord.errors import Form, Json, refused
from tests.fakes.discord.faults import Call
from tests.fakes.discord.mentions import ONLY_USERS, allowed_in
from tests.fakes.discord.messages import Flag, Message, Type
from tests.fakes.discord.places import ORDINARY, Channel, May, User
from tests.fakes.discord.rules import MAX_FILE_BYTES, check_message
from tests.fakes.discord.service_state import DiscordState

ANSWER_WITHIN = 3.0
TOKEN_LIVES = 15 * 60.0
COMMAND, COMPONENT = 2, 3
REPLY, DEFERRED_REPLY, DEFERRED_UPDATE, UPDATE = 4, 5, 6, 7
APP_MAY_IN_DM = May.EMBED_LINKS | May.ATTACH_FILES | May.PING_ALL
"""All that Discord tells an application of its permissions in a direct chat, though it may write there."""


@dataclass(eq=False)
class Interaction:
    """An action of a person and the bot's response."""

    id: int
    kind: int
    person: User
    channel: Channel
    data: Json
    created_at: float
    message: Message | None = None
    """The one whose button was pressed."""
    token: str = field(default_factory=lambda: "aW50ZXJhY3Rpb246" + uuid4().hex)
    answered_with: int = 0
    """The type of the first response; 0: none yet."""
    answered_after: float = 0.0
    original: Message | None = None
    followups: list[Message] = field(default_factory=list)

    @property
    def answered(self) -> bool:
        return self.answered_with != 0

    @property
    def replies(self) -> list[Message]:
        """Visible responses."""
        first = [self.original] if self.original is not None and self.original is not self.message else []
        return [message for message in (*first, *self.followups) if not message.deleted]

    async def acknowledged(self) -> None:
        """Until the bot has given its first response."""
        await self._until(lambda: self.answered)

    async def reply(self, wanted: Callable[[Message], bool] = lambda message: True) -> Message:
        """Until an answer like that can be seen ("thinking…" does not count)."""

        def found() -> list[Message]:
            return [message for message in self.replies if not message.thinking and wanted(message)]

        await self._until(lambda: bool(found()))
        return found()[0]

    async def _until(self, condition: Callable[[], bool]) -> None:
        def describe() -> str:
            return f"interaction {self.data} answered with type {self.answered_with}: {self.replies}"

        await self.channel.state.until(condition, otherwise=describe)


class Interactions:
    def __init__(self, state: DiscordState) -> None:
        self.state = state
        self.all: list[Interaction] = []

    def begin(
        self,
        kind: int,
        person: User,
        channel: Channel,
        data: Json,
        message: Message | None = None,
        *,
        odd: Json | None = None,
    ) -> Interaction:
        """`odd`: fields of the event that are not as usual."""
        now = self.state.clock.now()
        interaction = Interaction(self.state.new_id(), kind, person, channel, data, now, message)
        self.all.append(interaction)
        payload = {**self._event(interaction), **(odd or {})}
        self.state.tell("INTERACTION_CREATE", None, lambda _: payload)
        return interaction

    def _event(self, interaction: Interaction) -> Json:
        channel, person, bot = interaction.channel, interaction.person, self.state.bot
        event: Json = {
            "id": str(interaction.id),
            "application_id": str(bot.id),
            "type": interaction.kind,
            "token": interaction.token,
            "version": 1,
            "data": interaction.data,
            "channel_id": str(channel.id),
            "channel": {**channel.json(), "permissions": str(int(channel.permissions(person)))},
            "app_permissions": str(int(APP_MAY_IN_DM if channel.guild is None else channel.permissions(bot))),
            "locale": "en-US",
            "entitlements": [],
            "entitlement_sku_ids": [],
            "attachment_size_limit": MAX_FILE_BYTES,
        }
        if interaction.message is not None:
            event["message"] = interaction.message.json()
        if channel.guild is None:
            return event | {"user": person.json(), "context": 1, "authorizing_integration_owners": {"0": "0"}}
        member = channel.guild.members[person.id].json()
        return event | {
            "guild_id": str(channel.guild.id),
            "guild": {"id": str(channel.guild.id), "locale": "en-US", "features": []},
            "guild_locale": "en-US",
            "member": {**member, "permissions": str(int(ORDINARY))},
            "context": 0,
            "authorizing_integration_owners": {"0": str(channel.guild.id)},
        }

    def respond(self, call: Call) -> Json | None:
        interaction = self._awaiting(call)
        kind = call.json.get("type")
        allowed: tuple[int, ...] = (REPLY, DEFERRED_REPLY)
        if interaction.kind == COMPONENT:
            allowed += (DEFERRED_UPDATE, UPDATE)
        form = Form()
        form.check_choice("type", kind, allowed)
        form.raise_if_wrong()
        assert isinstance(kind, int)
        data = call.json.get("data") or {}
        if kind == REPLY:
            interaction.original = self._post(interaction, data, call, Form("data"))
        elif kind == DEFERRED_REPLY:
            flags = Flag(data.get("flags") or 0) & Flag.EPHEMERAL
            interaction.original = self._add_message(interaction, "", flags | Flag.LOADING)
        else:
            interaction.original = interaction.message
            if kind == UPDATE:
                assert interaction.message is not None
                self._edit(interaction.message, data, call, Form("data"))
        interaction.answered_with = kind
        interaction.answered_after = self.state.clock.now() - interaction.created_at
        self.state.watch.changed()
        return self._response(interaction) if call.query.get("with_response") in ("1", "true") else None

    def _awaiting(self, call: Call) -> Interaction:
        interaction = next((i for i in self.all if i.token == call.ids["token"]), None)
        if interaction is None or str(interaction.id) != call.ids["interaction_id"]:
            raise refused(10062)
        if interaction.answered:
            raise refused(40060)
        if self.state.clock.now() - interaction.created_at > ANSWER_WITHIN:
            raise refused(10062)
        return interaction

    def _response(self, interaction: Interaction) -> Json:
        about: Json = {
            "id": str(interaction.id),
            "type": interaction.kind,
            "channel_id": str(interaction.channel.id),
        }
        resource: Json = {"type": interaction.answered_with}
        message = interaction.original
        if message is not None:
            about |= {
                "response_message_id": str(message.id),
                "response_message_loading": message.thinking,
                "response_message_ephemeral": message.only_for is not None,
            }
            if interaction.answered_with in (REPLY, UPDATE):
                resource["message"] = message.json()
        return {"interaction": about, "resource": resource}

    def follow_up(self, call: Call) -> Json:
        """Straight after a deferred response this fills the "thinking…" instead of adding a message."""
        interaction = self._by_token(call)
        original = interaction.original
        if original is not None and original.thinking and not original.deleted:
            self._edit(original, call.json, call, Form())
            return original.json()
        message = self._post(interaction, call.json, call, Form())
        interaction.followups.append(message)
        self.state.watch.changed()
        return message.json()

    def get_reply(self, call: Call) -> Json:
        return self._reply(call).json()

    def edit_reply(self, call: Call) -> Json:
        message = self._reply(call)
        self._edit(message, call.json, call, Form())
        return message.json()

    def delete_reply(self, call: Call) -> None:
        self.state.delete(self._reply(call))

    def _by_token(self, call: Call) -> Interaction:
        interaction = next((i for i in self.all if i.token == call.ids["token"]), None)
        if interaction is None or call.ids["application_id"] != str(self.state.bot.id):
            raise refused(10015)
        if self.state.clock.now() - interaction.created_at > TOKEN_LIVES:
            raise refused(50027)
        if not interaction.answered:
            raise refused(10015)
        return interaction

    def _reply(self, call: Call) -> Message:
        interaction = self._by_token(call)
        wanted = call.ids["message_id"]
        candidates = (
            [interaction.original]
            if wanted == "@original"
            else [
                message
                for message in (interaction.original, *interaction.followups)
                if message is not None and str(message.id) == wanted
            ]
        )
        message = candidates[0] if candidates else None
        if message is None or message.deleted:
            raise refused(10008)
        return message

    def _post(self, interaction: Interaction, body: Json, call: Call, form: Form) -> Message:
        check_message(form, body, call.files, kept=frozenset())
        if is_empty(body, call.files):
            raise refused(50006)
        return self._add_message(
            interaction,
            body.get("content") or "",
            Flag(body.get("flags") or 0) & (Flag.EPHEMERAL | Flag.SUPPRESS_EMBEDS),
            uploads=described(body, call.files),
            allowed=allowed_in(body, ONLY_USERS),
            embeds=body.get("embeds") or [],
            components=body.get("components") or [],
        )

    def _add_message(self, interaction: Interaction, content: str, flags: Flag, **fields: Any) -> Message:
        metadata: Json = {
            "id": str(interaction.id),
            "type": interaction.kind,
            "user": interaction.person.json(),
            "authorizing_integration_owners": {},
        }
        return self.state.post(
            interaction.channel,
            self.state.bot,
            content,
            type=Type.CHAT_INPUT_COMMAND if interaction.kind == COMMAND else Type.DEFAULT,
            flags=flags,
            only_for=interaction.person if Flag.EPHEMERAL in flags else None,
            webhook_id=self.state.bot.id,
            interaction=metadata,
            **fields,
        )

    def _edit(self, message: Message, body: Json, call: Call, form: Form) -> None:
        edit_with(self.state, message, body, call.files, form, default=ONLY_USERS)


def pressable(message: Message, label: str) -> Json:
    """The button a person would find. Raises LookupError."""
    for button in message.buttons:
        if button.get("label") == label and not button.get("disabled") and button.get("custom_id"):
            return button
    raise LookupError(f"no button {label!r} to press on {message!r}; there are {message.labels}")
