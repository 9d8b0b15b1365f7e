"""The loopback Discord's slash commands and buttons: schemas, deadlines, and who may see the answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import discord
import pytest

from tests.fakes.discord.bot import Bot, online, refused
from tests.fakes.discord.server import FakeDiscord, NotPossible
from tests.support.watch import PATIENCE


@pytest.fixture
async def server() -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord() as server:
        yield server


class CommandBot(Bot):
    """/compress [focus] hands its interaction to the test."""

    def __init__(self) -> None:
        super().__init__()
        self.used: asyncio.Queue[tuple[discord.Interaction, str | None]] = asyncio.Queue()

        @self.tree.command(description="Shorten the conversation")
        async def compress(interaction: discord.Interaction, focus: str | None = None) -> None:
            self.used.put_nowait((interaction, focus))

    async def command(self) -> discord.Interaction:
        interaction, _ = await asyncio.wait_for(self.used.get(), PATIENCE)
        return interaction


@pytest.fixture
async def bot(server: FakeDiscord) -> AsyncIterator[CommandBot]:
    bot = CommandBot()
    async with online(server, bot):
        await bot.tree.sync()
        yield bot


async def test_a_command_and_its_answer(server: FakeDiscord, bot: CommandBot) -> None:
    """The registered command arrives with its option; the answer is a message, seen by all."""
    ada = server.person("Ada")
    used = await ada.uses("compress", focus="billing", channel=server.general)
    interaction, focus = await asyncio.wait_for(bot.used.get(), PATIENCE)
    assert (focus, interaction.user.id, interaction.guild_id) == ("billing", ada.id, server.guild.id)
    await interaction.response.send_message("Done")
    reply = await used.reply()
    assert (reply.content, server.general.texts) == ("Done", ["Done"])
    assert (await bot.hears("Done")).interaction_metadata is not None


async def test_in_a_direct_chat(server: FakeDiscord, bot: CommandBot) -> None:
    """There is a user and no member."""
    ada = server.person("Ada")
    used = await ada.uses("compress")
    interaction = await bot.command()
    assert interaction.guild is None
    assert interaction.user.id == ada.id
    await interaction.response.send_message("Done")
    assert (await used.reply()).channel is ada.dm()


async def test_only_what_is_registered_can_be_used(server: FakeDiscord, bot: CommandBot) -> None:
    """A person's client offers no other command and no other option."""
    ada = server.person("Ada")
    for attempt in (ada.uses("reset"), ada.uses("compress", depth="3"), ada.uses("compress", focus=3)):
        with pytest.raises(NotPossible):
            await attempt
    assert server.interactions.all == []


async def test_three_seconds(server: FakeDiscord, bot: CommandBot) -> None:
    """After that the interaction is unknown."""
    await server.person("Ada").uses("compress")
    interaction = await bot.command()
    server.clock.advance(3.1)
    with refused(10062, status=404):
        await interaction.response.send_message("late")


async def test_one_response(server: FakeDiscord, bot: CommandBot) -> None:
    """The second is refused; a follow-up is not a response."""
    used = await server.person("Ada").uses("compress")
    interaction = await bot.command()
    path = f"/interactions/{interaction.id}/{interaction.token}/callback"
    await interaction.response.send_message("first")
    with refused(40060):
        await bot.request("POST", path, {"type": 4, "data": {"content": "second"}})
    await interaction.followup.send("third")
    assert [message.content for message in used.replies] == ["first", "third"]


async def test_deferred(server: FakeDiscord, bot: CommandBot) -> None:
    """ "thinking…" shows at once, and the first follow-up replaces it instead of adding a message."""
    used = await server.person("Ada").uses("compress", channel=server.general)
    interaction = await bot.command()
    await interaction.response.defer()
    await used.acknowledged()
    assert [message.thinking for message in server.general.messages] == [True]
    server.clock.advance(60)
    await interaction.followup.send("compressed")
    assert [(m.content, m.thinking, m.edited) for m in server.general.messages] == [
        ("compressed", False, False)
    ]
    await interaction.edit_original_response(content="compressed more")
    assert server.general.texts == ["compressed more"]
    await interaction.delete_original_response()
    assert server.general.texts == []
    with refused(10008, status=404):
        await interaction.edit_original_response(content="again")


async def test_the_token_lives_fifteen_minutes(server: FakeDiscord, bot: CommandBot) -> None:
    """Then nothing can follow any more."""
    await server.person("Ada").uses("compress")
    interaction = await bot.command()
    await interaction.response.defer()
    server.clock.advance(15 * 60 + 1)
    with refused(50027, status=401):
        await interaction.edit_original_response(content="late")


async def test_nothing_follows_before_the_response(server: FakeDiscord, bot: CommandBot) -> None:
    """The interaction's webhook is not there yet."""
    await server.person("Ada").uses("compress")
    interaction = await bot.command()
    with refused(10015, status=404):
        await interaction.followup.send("hasty")


async def test_ephemeral(server: FakeDiscord, bot: CommandBot) -> None:
    """Only the person sees it, and the channel's history does not have it."""
    ada, ben = server.person("Ada"), server.person("Ben")
    used = await ada.uses("compress", channel=server.general)
    interaction, view = await bot.command(), discord.ui.View()
    view.add_item(discord.ui.Button(label="Why", custom_id="why"))
    await interaction.response.send_message("just you", ephemeral=True, view=view)
    reply = await used.reply()
    assert reply.only_for is ada
    assert [m async for m in bot.channel(server.general.id).history()] == []
    with pytest.raises(NotPossible):
        await ben.presses(reply, "Why")


async def test_answers_have_the_same_limits(server: FakeDiscord, bot: CommandBot) -> None:
    """2,000 characters and something to see; the error names the field below `data`."""
    used = await server.person("Ada").uses("compress")
    interaction = await bot.command()
    with refused(50035, "data.content"):
        await interaction.response.send_message("x" * 2001)
    path = f"/interactions/{interaction.id}/{interaction.token}/callback"
    with refused(50006):
        await bot.request("POST", path, {"type": 4, "data": {"content": ""}})
    with refused(50035, "Value must be one of"):
        await bot.request("POST", path, {"type": 7, "data": {"content": "no message to update"}})
    assert not used.answered


async def test_interactions_ping_users_only(server: FakeDiscord, bot: CommandBot) -> None:
    """The default here is narrower than in ordinary messages."""
    ada = server.person("Ada")
    used = await ada.uses("compress", channel=server.general)
    await (await bot.command()).response.send_message(f"@everyone {ada.mention}")
    pinged = (await used.reply()).pinged
    assert (pinged.everyone, pinged.users) == (False, (ada,))


async def test_buttons(server: FakeDiscord, bot: CommandBot) -> None:
    """A press is an interaction with the message; the bot can change the message by its response."""
    ada, view = server.person("Ada"), discord.ui.View(timeout=None)
    view.add_item(discord.ui.Button(label="Allow", custom_id="allow:1"))
    view.add_item(discord.ui.Button(label="Never", custom_id="never:1", disabled=True))
    await bot.channel(server.general.id).send("May I?", view=view)
    message = server.general.messages[0]
    for label in ("Never", "Perhaps"):
        with pytest.raises(LookupError):
            await ada.presses(message, label)
    pressed = await ada.presses(message, "Allow")
    interaction = await asyncio.wait_for(bot.pressed.get(), PATIENCE)
    assert interaction.data == {"custom_id": "allow:1", "component_type": 2, "id": 1}
    assert interaction.user.id == ada.id
    await interaction.response.edit_message(content="Allowed by Ada", view=None)
    await pressed.acknowledged()
    assert (message.content, message.labels, len(server.general.messages)) == ("Allowed by Ada", [], 1)


async def test_a_press_deferred(server: FakeDiscord, bot: CommandBot) -> None:
    """Type 6 shows nothing; @original is then the message that was pressed."""
    ada, view = server.person("Ada"), discord.ui.View(timeout=None)
    view.add_item(discord.ui.Button(label="Go", custom_id="go"))
    await bot.channel(server.general.id).send("Ready?", view=view)
    await ada.presses(server.general.messages[0], "Go")
    interaction = await asyncio.wait_for(bot.pressed.get(), PATIENCE)
    await interaction.response.defer()
    await interaction.edit_original_response(content="Gone", view=None)
    assert server.general.texts == ["Gone"]


def _option(name: str = "focus", **fields: Any) -> dict[str, Any]:
    return {"type": 3, "name": name, "description": "What to keep", **fields}


def _command(**fields: Any) -> dict[str, Any]:
    return {"name": "compress", "description": "Shorten", "type": 1, **fields}


@pytest.mark.parametrize(
    ("commands", "sentence"),
    [
        ([_command(name="Compress")], "Command name is invalid"),
        ([_command(name="com press")], "did not match validation regex"),
        ([_command(name="c" * 33)], "Must be between 1 and 32 in length."),
        ([_command(description="")], "Must be between 1 and 100 in length."),
        ([_command(description="d" * 101)], "Must be between 1 and 100 in length."),
        ([_command(), _command()], "names must be unique"),
        ([_command(name=f"c{n}") for n in range(101)], "Must be 100 or fewer in length."),
        ([_command(options=[_option(f"o{n}") for n in range(26)])], "Must be 25 or fewer in length."),
        ([_command(options=[_option("a"), _option("b", required=True)])], "Required options must be placed"),
        ([_command(options=[_option(), _option()])], "Option name already exists"),
        ([_command(options=[_option(type=12)])], "Value must be one of"),
        ([_command(options=[_option(description="")])], "Must be between 1 and 100"),
        ([_command(options=[_option(choices=[{"name": "", "value": "x"}])])], "Must be between 1 and 100"),
        ([_command(options=[_option(), _option("sub", type=1)])], "mutually exclusive"),
    ],
)
async def test_command_schemas(server: FakeDiscord, bot: CommandBot, commands: Any, sentence: str) -> None:
    """A set with one bad command is refused as a whole, and the old set stays."""
    with refused(50035, sentence):
        await bot.request("PUT", f"/applications/{server.bot.id}/commands", commands)
    assert server.commands.names() == ["compress"]


async def test_commands_come_back_without_what_is_empty(server: FakeDiscord, bot: CommandBot) -> None:
    """`required: false` and an empty list of options are not in Discord's answer."""
    wanted = [_command(options=[_option(required=False)]), _command(name="reset", options=[])]
    compress, reset = await bot.request("PUT", f"/applications/{server.bot.id}/commands", wanted)
    assert compress["options"] == [_option()]
    assert "options" not in reset


async def test_known_commands_keep_their_ids(server: FakeDiscord, bot: CommandBot) -> None:
    """An overwrite removes the others; every write is counted; a guild's own command goes first."""
    before = (await bot.tree.fetch_commands())[0].id
    path = f"/applications/{server.bot.id}/commands"
    after = await bot.request("PUT", path, [_command(description="New"), _command(name="reset")])
    assert after[0]["id"] == str(before)
    await bot.request("DELETE", f"{path}/{after[1]['id']}")
    assert server.commands.names() == ["compress"]
    own = await bot.request(
        "POST", f"/applications/{server.bot.id}/guilds/{server.guild.id}/commands", _command()
    )
    used = await server.person("Ada").uses("compress", channel=server.general)
    assert used.data["id"] == own["id"]
    assert server.commands.writes == 5
