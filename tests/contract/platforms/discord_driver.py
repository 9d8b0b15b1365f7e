"""People on Discord."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tests.contract.platforms.harness import ContractHarness
from tests.contract.platforms.scripted_model import PATIENCE
from tests.contract.platforms.surface import File, Person, Shown
from tests.fakes.discord import server

CURSOR = "▌"
LONGEST_TYPED = 2000

_BLOCK = re.compile(r"```(\w*)\n(.*?)\n?```", re.DOTALL)


class DiscordPerson(Person):
    def __init__(self, harness: ContractHarness, who: server.Person, channel: server.Channel) -> None:
        self.name = who.name
        self.who = who
        self.channel = channel
        self._server = harness.discord

    async def says(self, text: str, *, to_bot: bool = True, reply_to: Any = None) -> server.Message:
        if isinstance(reply_to, Shown):
            reply_to = reply_to.message
        mentions = [self._server.bot] if to_bot and self.channel.guild is not None else []
        # The switch beside a reply is off: that it refers to the bot must be enough.
        return await self.who.says(
            text, channel=self.channel, reply_to=reply_to, mentions=mentions, pings_author=False
        )

    async def uses(self, command: str, argument: str = "") -> None:
        offered = self._server.commands.find(command, self.channel.guild)
        if offered is None:  # an alias is typed
            await self.who.says(f"/{command} {argument}".rstrip(), channel=self.channel)
            return
        options = {offered["options"][0]["name"]: argument} if argument else {}
        await self.who.uses(command, channel=self.channel, **options)

    async def pastes(self, text: str) -> None:
        """Discord's client offers a file; people cut the text themselves."""
        while text:
            end = len(text) if len(text) <= LONGEST_TYPED else text.rindex("\n", 0, LONGEST_TYPED) + 1
            await self.who.says(text[:end], channel=self.channel)
            text = text[end:]

    async def edits(self, said: server.Message, text: str) -> None:
        mention = f"{self._server.bot.mention} " if self._server.bot.mention in said.content else ""
        await self.who.edits(said, mention + text)

    async def sends(self, *files: File, text: str = "") -> None:
        uploads = [
            server.Upload(file.name, file.data, duration=3.0 if file.kind == "voice" else None)
            for file in files
        ]
        await self.who.says(text, channel=self.channel, attachments=uploads)

    async def presses(self, shown: Shown, label: str) -> str:
        pressed = await self.who.presses_custom_id(shown.message, shown.buttons[label])
        return str((await pressed.reply()).content)

    def messages(self) -> list[Shown]:
        return [
            _shown(message)
            for message in self.channel.answers
            if message.only_for in (None, self.who) and not message.thinking
        ]

    async def until(self, condition: Callable[[], bool]) -> None:
        await self.channel.until(condition, within=PATIENCE)

    def is_typing_shown(self) -> bool:
        return bool(self.channel.typings)

    def code_blocks(self) -> list[tuple[str, str]]:
        """Return the text between two fences of one message, as Discord's client does."""
        return [found for text in self.visible() for found in _BLOCK.findall(text)]

    async def sees_bold(self, words: str) -> bool:
        """Discord's client makes bold of this."""
        return any(f"**{words}**" in text for text in self.visible())


class DiscordSurface:
    name = "discord"
    limit = 2000

    def __init__(self, harness: ContractHarness) -> None:
        self._harness = harness
        self._server = harness.discord

    def size(self, text: str) -> int:
        return len(text)

    async def person(self, name: str = "Ada") -> DiscordPerson:
        return self._alone(self._allowed(name))

    def admin(self) -> DiscordPerson:
        return self._alone(self._harness.discord_admin)

    def stranger(self, name: str = "Mallory") -> DiscordPerson:
        return self._alone(self._server.person(name))

    def group(self, *names: str) -> list[DiscordPerson]:
        channel = self._server.guild.add_channel(f"team-{next(self._harness.numbers)}")
        return [DiscordPerson(self._harness, self._allowed(name), channel) for name in names]

    def joins(self, newcomer: Person, member: Person) -> DiscordPerson:
        assert isinstance(newcomer, DiscordPerson) and isinstance(member, DiscordPerson)
        return DiscordPerson(self._harness, newcomer.who, member.channel)

    def foreign_group(self, *people: Person) -> list[DiscordPerson]:
        users = [person.who for person in people if isinstance(person, DiscordPerson)]
        elsewhere = self._server.add_guild("Elsewhere")
        for user in users:
            elsewhere.add_member(user)
        channel = elsewhere.add_channel("lounge")
        return [DiscordPerson(self._harness, user, channel) for user in users]

    def thread(self, title: str, *people: Person) -> list[DiscordPerson]:
        known = [person for person in people if isinstance(person, DiscordPerson)]
        thread = known[0].channel.thread(title, owner=known[0].who)
        return [DiscordPerson(self._harness, person.who, thread) for person in known]

    def slow_down_edits(self, seconds: int, *, after: int) -> Callable[[], bool]:
        fault = self._server.fail_next("edit_message", server.Fault.rate_limited(seconds), after=after)
        return lambda: fault.reached > 0

    def drop_next_message(self) -> None:
        self._server.fail_next("send_message", server.Fault.drop())

    def most_edits_at_once(self) -> int:
        return max(
            (message.most_edits_in_flight for message in self._server.state.messages.values()), default=0
        )

    async def goes_down(self) -> None:
        await self._server.go_down()

    async def comes_back(self) -> None:
        await self._server.come_back()

    def menu(self) -> set[str]:
        return set(self._server.commands.names())

    def _allowed(self, name: str) -> server.Person:
        who = next(self._harness.discord_people)
        who.name = name
        return who

    def _alone(self, who: server.Person) -> DiscordPerson:
        return DiscordPerson(self._harness, who, who.dm())


def _shown(message: server.Message) -> Shown:
    attached = message.attachments[0] if message.attachments else None
    return Shown(
        message.content,
        is_growing=message.content.endswith(CURSOR),
        buttons={button["label"]: button["custom_id"] for button in message.buttons},
        file=File(attached.filename, attached.data) if attached else None,
        versions=message.versions,
        message=message,
    )
