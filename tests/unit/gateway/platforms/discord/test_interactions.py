"""Slash commands and buttons."""

from __future__ import annotations

import asyncio

import pytest

from gateway.commands import Command, Commands
from gateway.platforms.discord.interactions import NO_PERMISSION, NO_PERMISSION_IN_THREADS, NO_PLACE
from gateway.types import Author, Button, Press
from tests.fakes.discord.interactions import COMMAND
from tests.fakes.discord.server import FakeDiscord, Fault, May, Person
from tests.support.discord_harness import COMMANDS, Bot, RecordingReceiver, place, running


async def registered(server: FakeDiscord, times: int) -> None:
    """Until the whole menu has been written that many times."""
    await server.until(
        lambda: [call.status for call in server.calls_to("overwrite_commands")] == [200] * times
    )


async def test_commands_are_registered(bot: Bot, server: FakeDiscord) -> None:
    """Each with its summary and the word that may follow, for servers and for the direct chat."""
    await registered(server, 1)
    assert server.commands.names() == ["compress", "reset", "stop", "undo-compress"]
    compress = server.commands.find("compress", None)
    assert compress is not None
    assert compress["description"] == "summarise older messages now"
    [option] = compress["options"]
    assert (option["name"], option["type"], option.get("required", False)) == ("focus", 3, False)
    assert sorted(compress["contexts"]) == [0, 1]


async def test_every_built_in_command_is_in_the_menu(server: FakeDiscord) -> None:
    """Aliases such as `/new` have their own entries."""
    commands = (await asyncio.to_thread(Commands.discover)).menu
    async with running(Bot(server, commands=commands)):
        await registered(server, 1)
    assert server.commands.names() == sorted(command.name for command in commands)
    assert "new" in server.commands.names()


async def test_commands_are_registered_only_when_they_change(server: FakeDiscord) -> None:
    """Discord allows 200 registrations a day, and a rewritten menu vanishes for a moment."""
    async with running(Bot(server)):
        await registered(server, 1)
    async with running(Bot(server)):
        await server.called("list_commands", 2)
    async with running(Bot(server, commands=COMMANDS[:2])):
        await registered(server, 2)
    assert server.commands.names() == ["compress", "reset"]


async def test_a_name_that_discord_refuses_spoils_nothing(server: FakeDiscord) -> None:
    """A plugin may bring any name; one that Discord does not take would have all of them refused."""
    odd = Command("deploy.now!", "x" * 300, COMMANDS[0].run)
    lengthy = Command("lengthy", "x" * 300, COMMANDS[0].run, argument="TWO WORDS")
    async with running(Bot(server, commands=(*COMMANDS, odd, lengthy))):
        await registered(server, 1)
    assert server.commands.names() == ["compress", "lengthy", "reset", "stop", "undo-compress"]


async def test_a_menu_that_cannot_be_registered_stops_nobody(server: FakeDiscord, ada: Person) -> None:
    """Commands can still be typed."""
    server.fail_next("list_commands", Fault.error(403, 50001))
    async with running(Bot(server)) as bot:
        await ada.says("/reset")
        assert (await bot.receiver.next_message()).text == "/reset"
    assert server.commands.names() == []


async def test_a_command_is_acknowledged_before_it_is_accepted(
    bot: Bot, ada: Person, server: FakeDiscord
) -> None:
    """Discord waits three seconds; accepting may take longer. Then the command itself is shown in the chat."""
    await registered(server, 1)
    bot.receiver.gate.clear()
    used = await ada.uses("compress", focus="billing", channel=server.general)
    await used.acknowledged()
    heard = await bot.receiver.next_message()
    assert used.original is not None
    assert used.original.thinking
    bot.receiver.gate.set()
    reply = await used.reply()
    assert (reply.content, reply.only_for) == ("`/compress billing`", None)
    assert (heard.text, heard.addressed) == ("/compress billing", True)
    assert (heard.place, heard.author) == (place(server.general), Author(str(ada.id), "Ada"))
    assert heard.id == str(reply.id), "what is answered to must be a message that exists"


async def test_a_command_in_a_thread_and_in_private(bot: Bot, ada: Person, server: FakeDiscord) -> None:
    """The same places as for messages."""
    await registered(server, 1)
    thread = await ada.opens_thread("release", channel=server.general)
    for channel in (thread, ada.dm()):
        used = await ada.uses("reset", channel=channel)
        assert (await bot.receiver.next_message()).place == place(channel)
        assert (await used.reply()).content == "`/reset`"


async def test_a_command_is_repeated_as_code(bot: Bot, ada: Person, ben: Person, server: FakeDiscord) -> None:
    """The repeated command is untrusted text: it notifies no one, shows no link, and is short."""
    await registered(server, 1)
    focus = f"`@everyone` {ben.mention}\nhttps://example.org \ud83d"
    used = await ada.uses("compress", focus=focus, channel=server.general)
    shown = f"/compress '@everyone' {ben.mention} https://example.org \ufffd"
    assert (await used.reply()).content == f"`{shown}`"
    used = await ada.uses("compress", focus="x" * 1000, channel=server.general)
    assert (await used.reply()).content == f"`/compress {'x' * 139}…`"
    assert not server.pings()


async def test_nothing_is_repeated_of_who_may_not_speak(bot: Bot, ada: Person, server: FakeDiscord) -> None:
    """An outsider must not make the bot say anything: the sign of life is taken away again."""
    await registered(server, 1)
    bot.receiver.allows = False
    used = await ada.uses("compress", focus="buy at example.org", channel=server.general)
    await bot.receiver.next_message()
    await server.until(lambda: used.answered and not used.replies)
    assert used.original is not None
    assert used.original.versions == [""]


@pytest.mark.parametrize(
    ("in_thread", "missing", "sentence"),
    [
        (False, May.SEND, NO_PERMISSION),
        (False, May.VIEW, NO_PERMISSION),
        (True, May.SEND_IN_THREADS, NO_PERMISSION_IN_THREADS),
        (True, May.VIEW, NO_PERMISSION_IN_THREADS),
    ],
)
async def test_a_command_where_the_bot_may_not_write(
    bot: Bot, ada: Person, server: FakeDiscord, in_thread: bool, missing: May, sentence: str
) -> None:
    """Its answer could not be sent, so it is not carried out, and the person learns what is missing."""
    await registered(server, 1)
    where = await ada.opens_thread("release", channel=server.general) if in_thread else server.general
    server.general.forbid(server.bot, missing)
    used = await ada.uses("reset", channel=where)
    answer = await used.reply()
    assert (answer.content, answer.only_for) == (sentence, ada)
    await ada.says("hello")
    assert (await bot.receiver.next_message()).text == "hello"


@pytest.mark.parametrize(
    ("in_thread", "missing"), [(False, May.SEND_IN_THREADS), (True, May.SEND)], ids=["channel", "thread"]
)
async def test_a_command_asks_for_no_more_than_it_needs(
    bot: Bot, ada: Person, server: FakeDiscord, in_thread: bool, missing: May
) -> None:
    """Writing in channels and writing in threads are different permissions."""
    await registered(server, 1)
    where = await ada.opens_thread("release", channel=server.general) if in_thread else server.general
    server.general.forbid(server.bot, missing)
    await ada.uses("reset", channel=where)
    assert (await bot.receiver.next_message()).place == place(where)


async def test_a_command_from_a_channel_of_an_unknown_kind(
    bot: Bot, ada: Person, server: FakeDiscord
) -> None:
    """The library gives no channel then; the person is told instead of being kept waiting."""
    data = {"id": "1", "name": "reset", "type": 1}
    odd = {"channel": {"id": "1", "type": 99}}
    used = server.interactions.begin(COMMAND, ada, server.general, data, odd=odd)
    assert (await used.reply()).content == NO_PLACE
    assert bot.receiver.is_idle


async def test_a_command_that_comes_too_late_is_not_carried_out(
    bot: Bot, ada: Person, server: FakeDiscord
) -> None:
    """The person has read that the bot did not respond, and will try again."""
    await registered(server, 1)
    fault = server.fail_next("respond", Fault.error(404, 10062))
    await ada.uses("reset")
    await fault.arrived()
    await ada.says("hello?")
    assert (await bot.receiver.next_message()).text == "hello?"


async def test_stop_as_a_command_waits_for_nobody(bot: Bot, ada: Person, server: FakeDiscord) -> None:
    """It overtakes what is still being accepted."""
    await registered(server, 1)
    await ada.says("first of all")
    await bot.receiver.next_message()
    bot.receiver.gate.clear()
    await ada.says("a question")
    await ada.says("another")
    await ada.uses("stop")
    assert [(await bot.receiver.next_message()).text for _ in range(2)] == ["a question", "/stop"]
    bot.receiver.gate.set()


async def test_a_button(bot: Bot, ada: Person, ben: Person, server: FakeDiscord) -> None:
    """The receiver learns who pressed which button; only that person sees the reply."""
    buttons = [Button("Once", "approve:1:once"), Button("x" * 100, "approve:1:deny")]
    sent = await bot.port.send(place(server.general), "May I?", buttons=buttons)
    message = server.state.messages[int(sent)]
    assert message.labels == ["Once", "x" * 80]
    bot.receiver.verdict = "Only Ada may decide that. \ud83d"
    bot.receiver.gate.clear()
    pressed = await ben.presses(message, "Once")
    await pressed.acknowledged()
    bot.receiver.gate.set()
    answer = await pressed.reply()
    assert (answer.content, answer.only_for) == ("Only Ada may decide that. \ufffd", ben)
    assert await bot.receiver.next_press() == Press(
        place(server.general), Author(str(ben.id), "Ben"), sent, "approve:1:once"
    )


async def test_a_button_from_before_the_restart(server: FakeDiscord, ada: Person) -> None:
    """Nothing about buttons is kept in memory."""
    async with running(Bot(server)) as bot:
        sent = await bot.port.send(place(ada.dm()), "May I?", buttons=[Button("Once", "old")])
    async with running(Bot(server)) as bot:
        await ada.presses(server.state.messages[int(sent)], "Once")
        assert (await bot.receiver.next_press()).data == "old"


async def test_an_answer_that_fails_takes_nothing_down(bot: Bot, ada: Person, server: FakeDiscord) -> None:
    """The next command works."""
    await registered(server, 1)
    fault = server.fail_next("edit_reply", Fault.error(404, 10015))
    await ada.uses("reset")
    await fault.arrived()
    assert (await bot.receiver.next_message()).text == "/reset"
    used = await ada.uses("compress")
    assert (await used.reply()).content == "`/compress`"


async def test_the_desk_that_is_handed_out_has_the_port(bot: Bot, receiver: RecordingReceiver) -> None:
    """What the receiver answers through is what the platform shows."""
    assert bot.port_given is bot.platform.port
