"""People on Telegram."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.contract.platforms.harness import TELEGRAM_ADMIN, ContractHarness
from tests.contract.platforms.scripted_model import PATIENCE
from tests.contract.platforms.surface import File, Person, Shown
from tests.fakes.telegram import server
from tests.fakes.telegram.text import cut, units

CURSOR = "▌"


class TelegramPerson(Person):
    def __init__(
        self,
        harness: ContractHarness,
        who: server.Person,
        chat: server.Chat,
        topic: server.Topic | None = None,
    ) -> None:
        self.name = who.user.first_name
        self.who = who
        self.chat = chat
        self.topic = topic
        self._harness = harness

    async def says(self, text: str, *, to_bot: bool = True, reply_to: Any = None) -> server.Message:
        if isinstance(reply_to, Shown):
            reply_to = reply_to.message
        if to_bot and self.chat.kind != "private":
            text = f"@{self._harness.telegram.bot.username} {text}"
        return await self.who.says(text, chat=self.chat, thread=self.topic, reply_to=reply_to)

    async def uses(self, command: str, argument: str = "") -> None:
        bot = self._harness.telegram.bot.username
        text = f"/{command.replace('-', '_')}@{bot} {argument}".rstrip()
        await self.who.says(text, chat=self.chat, thread=self.topic)

    async def pastes(self, text: str) -> None:
        await self.who.pastes(text, chat=self.chat, thread=self.topic)

    async def edits(self, said: server.Message, text: str) -> None:
        await self.who.edits(said, text)

    async def sends(self, *files: File, text: str = "") -> None:
        where: dict[str, Any] = {"chat": self.chat, "thread": self.topic}
        if len(files) > 1:
            await self.who.sends_album([file.data for file in files], text, **where)
            return
        (file,) = files
        match file.kind:
            case "image":
                await self.who.sends_photo(file.data, text, **where)
            case "voice":
                await self.who.sends_voice(file.data, **where)
            case _:
                await self.who.sends_document(file.data, file.name, text, **where)

    async def presses(self, shown: Shown, label: str) -> str:
        query = self.who.sends_callback(shown.message, shown.buttons[label])
        answer = await query.answered(PATIENCE)
        return str(answer.get("text", ""))

    def messages(self) -> list[Shown]:
        topic = self.topic.id if self.topic else None
        return [
            _shown(message)
            for message in self.chat.from_bot
            if not self.chat.is_forum or (message.thread if message.in_topic else None) == topic
        ]

    async def until(self, condition: Callable[[], bool]) -> None:
        await self.chat.wait_for(condition, PATIENCE)

    def is_typing_shown(self) -> bool:
        return any(action.action == "typing" for action in self.chat.actions)

    def code_blocks(self) -> list[tuple[str, str]]:
        return [
            (entity.get("language", ""), cut(message.text, entity["offset"], entity["length"]))
            for message in self.chat.from_bot
            for entity in message.entities
            if entity["type"] == "pre"
        ]

    async def sees_bold(self, words: str) -> bool:
        def bold(message: server.Message) -> bool:
            start = units(message.text.partition(words)[0])
            wanted = {"type": "bold", "offset": start, "length": units(words)}
            return words in message.text and wanted in message.entities

        return any(map(bold, self.chat.from_bot))


class TelegramSurface:
    name = "telegram"
    limit = 4096

    def __init__(self, harness: ContractHarness) -> None:
        self._harness = harness
        self._server = harness.telegram

    def size(self, text: str) -> int:
        return units(text)

    async def person(self, name: str = "Ada") -> TelegramPerson:
        return self._alone(next(self._harness.telegram_users), name)

    def admin(self) -> TelegramPerson:
        return self._alone(TELEGRAM_ADMIN, "Olga")

    def stranger(self, name: str = "Mallory") -> TelegramPerson:
        return self._alone(900_000 + next(self._harness.numbers), name)

    def group(self, *names: str) -> list[TelegramPerson]:
        people = [
            self._server.person(id=next(self._harness.telegram_users), first_name=name) for name in names
        ]
        team = self._server.supergroup("Team", *people, id=next(self._harness.telegram_groups), forum=True)
        return [TelegramPerson(self._harness, person, team) for person in people]

    def joins(self, newcomer: Person, member: Person) -> TelegramPerson:
        assert isinstance(newcomer, TelegramPerson) and isinstance(member, TelegramPerson)
        return TelegramPerson(self._harness, newcomer.who, member.chat, member.topic)

    def foreign_group(self, *people: Person) -> list[TelegramPerson]:
        users = [person.who for person in people if isinstance(person, TelegramPerson)]
        elsewhere = self._server.supergroup("Elsewhere", *users)
        return [TelegramPerson(self._harness, user, elsewhere) for user in users]

    def thread(self, title: str, *people: Person) -> list[TelegramPerson]:
        known = [person for person in people if isinstance(person, TelegramPerson)]
        topic = known[0].chat.topic(title)
        return [TelegramPerson(self._harness, person.who, person.chat, topic) for person in known]

    def slow_down_edits(self, seconds: int, *, after: int) -> Callable[[], bool]:
        planned = self._server.fail_next("editMessageText", server.Fault.flood(seconds), after=after)
        return lambda: bool(planned.calls)

    def drop_next_message(self) -> None:
        self._server.fail_next("sendMessage", server.Fault.drop())

    def most_edits_at_once(self) -> int:
        return self._server.most_edits_in_flight

    async def goes_down(self) -> None:
        await self._server.go_down()

    async def comes_back(self) -> None:
        await self._server.come_back()

    def menu(self) -> set[str]:
        lists = self._server.bot.commands
        return {command["command"] for commands in lists.values() for command in commands}

    def _alone(self, number: int, name: str) -> TelegramPerson:
        who = self._server.person(id=number, first_name=name)
        return TelegramPerson(self._harness, who, who.chat)


def _shown(message: server.Message) -> Shown:
    attached = message.attachment.file if message.attachment else None
    return Shown(
        message.text,
        is_growing=message.text.endswith(CURSOR),
        buttons={key["text"]: key["callback_data"] for row in message.keyboard for key in row},
        file=File(attached.name, attached.data) if attached else None,
        versions=message.versions,
        message=message,
    )
