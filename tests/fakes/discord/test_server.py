"""The loopback Discord refuses what Discord refuses in messages: seen with the real discord.py over a socket."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import discord
import pytest

from tests.fakes.discord.bot import Bot, online, refused
from tests.fakes.discord.server import FakeDiscord, Fault, May, Upload


@pytest.fixture
async def server() -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord() as server:
        yield server


@pytest.fixture
async def bot(server: FakeDiscord) -> AsyncIterator[Bot]:
    async with online(server) as bot:
        yield bot


async def test_2000_characters_are_the_limit(server: FakeDiscord, bot: Bot) -> None:
    """Characters are code points; one more is refused with Discord's own sentence."""
    general = bot.channel(server.general.id)
    await general.send("🎈" * 2000)
    with refused(50035, "Must be 2000 or fewer in length."):
        await general.send("🎈" * 2001)
    sent = await general.send("short")
    with refused(50035, "content"):
        await sent.edit(content="x" * 2001)
    assert [len(text) for text in server.general.texts] == [2000, 5]


async def test_a_message_needs_something_to_see(server: FakeDiscord, bot: Bot) -> None:
    """Nothing, white space and buttons alone are refused, when sent and when edited."""
    general, view = bot.channel(server.general.id), discord.ui.View()
    view.add_item(discord.ui.Button(label="Lonely", custom_id="lonely"))
    for content in ("", " \n\t "):
        with refused(50006):
            await general.send(content, view=view)
    sent = await general.send("here")
    with refused(50006):
        await sent.edit(content="")
    assert server.general.texts == ["here"]


async def test_text_is_trimmed(server: FakeDiscord, bot: Bot) -> None:
    """White space at both ends of a message does not survive."""
    sent = await bot.channel(server.general.id).send("\n    indented\n")
    assert sent.content == "indented"


async def test_what_is_not_there_or_not_allowed(server: FakeDiscord, bot: Bot) -> None:
    """Unknown channel and message, missing access, missing permissions: four different errors."""
    ada = server.person("Ada")
    hers = await ada.says("mine", channel=server.general)
    hidden, read_only = server.guild.add_channel("hidden"), server.guild.add_channel("read-only")
    hidden.forbid(server.bot, May.VIEW)
    read_only.forbid(server.bot, May.SEND)
    general = bot.channel(server.general.id)
    with refused(10003, status=404):
        await bot.channel(1).send("x")
    with refused(10008, status=404):
        await general.fetch_message(1)
    with refused(50001, status=403):
        await bot.channel(hidden.id).send("x")
    with refused(50013, status=403):
        await bot.channel(read_only.id).send("x")
    with refused(50005, status=403):
        await general.get_partial_message(hers.id).edit(content="yours")
    with refused(50013, status=403):
        await general.get_partial_message(hers.id).delete()


async def test_direct_messages(server: FakeDiscord, bot: Bot) -> None:
    """They go both ways, unless the person refuses them or shares no guild with the bot."""
    ada, closed, stranger = server.person("Ada"), server.person("Cy"), server.person("Eve", outsider=True)
    closed.refuses_dms = True
    await ada.says("psst")
    heard = await bot.hears("psst")
    assert isinstance(heard.channel, discord.DMChannel)
    await heard.channel.send("yes?")
    assert ada.dm().texts == ["psst", "yes?"]
    for person, code in ((closed, 50007), (stranger, 50278)):
        user = await bot.fetch_user(person.id)
        with refused(code, status=403):
            await user.send("hello")


async def test_replies(server: FakeDiscord, bot: Bot) -> None:
    """A reply to a message that is gone is refused, or sent without the reference when the bot says so."""
    ada = server.person("Ada")
    question = await ada.says("Who?", channel=server.general)
    heard = await bot.hears("Who?")
    await heard.reply("Me")
    assert (await server.general.answer()).reply_to is question
    await ada.deletes(question)
    with refused(50035, "Unknown message"):
        await heard.reply("Me again")
    await heard.channel.send("Me", reference=heard.to_reference(fail_if_not_exists=False))
    assert server.general.answers[-1].reply_to is None


async def test_a_persons_reply_quotes_and_mentions_the_bot(server: FakeDiscord, bot: Bot) -> None:
    """The bot hears what was replied to, and that it is meant."""
    sent = await bot.channel(server.general.id).send("The answer is 42.")
    ada = server.person("Ada")
    await ada.says("Why?", channel=server.general, reply_to=server.state.messages[sent.id])
    heard = await bot.hears("Why?")
    assert heard.reference is not None
    assert isinstance(heard.reference.resolved, discord.Message)
    assert heard.reference.resolved.content == "The answer is 42."
    assert bot.user in heard.mentions


def _row(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": 1, "components": list(parts)}


def _button(number: int = 0, **fields: Any) -> dict[str, Any]:
    return {"type": 2, "style": 1, "label": "Press", "custom_id": f"button-{number}", **fields}


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([_row(_button(n)) for n in range(6)], "Must be 5 or fewer in length."),
        ([_row(*(_button(n) for n in range(6)))], "exceeds the maximum width"),
        ([_row()], "Must be between 1 and 5 in length."),
        ([_row(_button(), _button())], "custom id cannot be duplicated"),
        ([_row(_button(custom_id="x" * 101))], "Must be between 1 and 100 in length."),
        ([_row(_button(custom_id=""))], "Must be between 1 and 100 in length."),
        ([_row(_button(label="x" * 81))], "Must be 80 or fewer in length."),
        ([_row(_button(label=""))], "label or emoji"),
        ([_row(_button(style=5, url="https://example.org"))], "cannot both be specified"),
        ([_button()], "Value must be one of"),
    ],
)
async def test_components(server: FakeDiscord, bot: Bot, rows: list[Any], sentence: str) -> None:
    """Rows, buttons, labels and custom ids have their limits; a good row passes."""
    path = f"/channels/{server.general.id}/messages"
    with refused(50035, sentence):
        await bot.request("POST", path, {"content": "x", "components": rows})
    await bot.request("POST", path, {"content": "x", "components": [_row(_button(1), _button(2))]})
    assert [m.labels for m in server.general.messages] == [["Press", "Press"]]


async def test_who_is_pinged(server: FakeDiscord, bot: Bot) -> None:
    """Without `allowed_mentions`, every mention notifies; `none()`, code and edits notify no one."""
    ada, role = server.person("Ada"), server.guild.add_role("crew", mentionable=True)
    text = f"@everyone {role.mention} {ada.mention}"
    general = bot.channel(server.general.id)
    await general.send(text)
    loud = server.general.answers[-1].pinged
    assert (loud.everyone, loud.roles, loud.users) == (True, (role.id,), (ada,))
    await general.send(text, allowed_mentions=discord.AllowedMentions.none())
    await general.send(f"`{text}`")
    await (await general.send("calm")).edit(content=text)
    assert [bool(message.pinged) for message in server.general.answers] == [True, False, False, False]
    assert server.pings() == server.general.answers[:1]


async def test_replied_user_alone_still_parses_the_rest(server: FakeDiscord, bot: Bot) -> None:
    """The SDK's default for the other kinds is to parse them: only `none()` is quiet."""
    ada = server.person("Ada")
    await ada.says("hi", channel=server.general)
    heard = await bot.hears("hi")
    await heard.reply("@everyone", allowed_mentions=discord.AllowedMentions(replied_user=False))
    await heard.reply("you")
    await heard.reply("nobody", allowed_mentions=discord.AllowedMentions.none())
    pinged = [(m.pinged.everyone, m.pinged.users) for m in server.general.answers]
    assert pinged == [(True, ()), (False, (ada,)), (False, ())]


async def test_allowed_mentions_are_checked(server: FakeDiscord, bot: Bot) -> None:
    """Parsing all users and listing some exclude each other; kinds are known."""
    path = f"/channels/{server.general.id}/messages"
    for allowed, sentence in (
        ({"parse": ["users"], "users": ["1"]}, "mutually exclusive"),
        ({"parse": ["admins"]}, "Value must be one of"),
        ({"users": [str(n) for n in range(101)]}, "Must be 100 or fewer"),
    ):
        with refused(50035, sentence):
            await bot.request("POST", path, {"content": "x", "allowed_mentions": allowed})


async def test_a_nonce_makes_a_retry_harmless(server: FakeDiscord, bot: Bot) -> None:
    """The same nonce gives the same message again for some minutes; it has at most 25 characters."""
    general = bot.channel(server.general.id)
    server.fail_next("send_message", Fault.lose_answer())
    with pytest.raises(aiohttp.ClientError):
        await general.send("once", nonce="turn-1")
    again = await general.send("once", nonce="turn-1")
    assert [m.id for m in server.general.messages] == [again.id]
    server.clock.advance(10 * 60)
    await general.send("once", nonce="turn-1")
    assert server.general.texts == ["once", "once"]
    with refused(50035, "Must be 25 or fewer in length."):
        await general.send("x", nonce="n" * 26)


async def test_files_go_both_ways(server: FakeDiscord, bot: Bot) -> None:
    """An upload can be downloaded from its address, for a day."""
    ada = server.person("Ada")
    await ada.says("look", channel=server.general, attachments=[Upload("notes.txt", b"facts")])
    heard = await bot.hears("look")
    attachment = heard.attachments[0]
    assert (await attachment.read(), attachment.content_type) == (b"facts", "text/plain")
    await heard.channel.send(file=discord.File(io.BytesIO(b"a,b"), "table.csv"))
    sent = (await server.general.answer()).attachments[0]
    assert (sent.filename, sent.data) == ("table.csv", b"a,b")
    server.clock.advance(25 * 3600)
    with pytest.raises(discord.NotFound):
        await attachment.read()


async def test_a_file_over_10_mib_is_refused(server: FakeDiscord, bot: Bot) -> None:
    """With 413 and 40005."""
    big = discord.File(io.BytesIO(b"x" * (10 * 2**20 + 1)), "big.bin")
    with refused(40005, status=413):
        await bot.channel(server.general.id).send(file=big)


async def test_edits_keep_what_they_do_not_name(server: FakeDiscord, bot: Bot) -> None:
    """An edit of the text leaves buttons and files; both can be removed by name."""
    view = discord.ui.View()
    view.add_item(discord.ui.Button(label="Go", custom_id="go"))
    sent = await bot.channel(server.general.id).send(
        "a", view=view, file=discord.File(io.BytesIO(b"x"), "x.txt")
    )
    message = server.general.messages[0]
    await sent.edit(content="b")
    assert (message.content, message.labels, len(message.attachments)) == ("b", ["Go"], 1)
    await sent.edit(view=None, attachments=[])
    assert (message.labels, message.attachments, message.versions) == ([], [], ["a", "b", "b"])


async def test_the_bot_hears_its_own_echo(server: FakeDiscord, bot: Bot) -> None:
    """What it writes, edits and deletes comes back over the gateway."""
    sent = await bot.channel(server.general.id).send("one")
    assert (await bot.hears("one")).author == bot.user
    await sent.edit(content="two")
    assert (await asyncio.wait_for(bot.edits.get(), 5)).content == "two"
    await sent.delete()
    assert await asyncio.wait_for(bot.deletions.get(), 5) == sent.id
    assert server.general.messages == []
    assert server.general.history[0].versions == ["one", "two"]


async def test_the_limit_is_honest(server: FakeDiscord, bot: Bot) -> None:
    """The SDK sees the last request of a window and waits by itself; a client that does not wait gets 429."""
    server.limit(["send_message"], 2, per=0.3)
    for number in range(3):
        await bot.channel(server.general.id).send(str(number))
    assert [call.status for call in server.calls_to("send_message")] == [200, 200, 200]
    url = f"{server.api_base}/channels/{server.general.id}/messages"
    headers = {"Authorization": f"Bot {server.token}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        for _ in range(3):
            async with session.post(url, json={"content": "hasty"}) as response:
                body = await response.json()
        assert response.status == 429
        assert 0 < body["retry_after"] <= 0.3
        assert response.headers["Via"]
        assert response.headers["X-RateLimit-Remaining"] == "0"
        server.clock.advance(1)
        async with session.post(url, json={"content": "patient"}) as response:
            assert response.status == 200


async def test_a_429_out_of_the_blue_is_retried_by_the_sdk(server: FakeDiscord, bot: Bot) -> None:
    """`after` spares the first; the retry goes through."""
    general = bot.channel(server.general.id)
    fault = server.fail_next("send_message", Fault.rate_limited(0.05), after=1)
    await general.send("one")
    await general.send("two")
    assert [call.status for call in server.calls_to("send_message")] == [200, 429, 200]
    assert fault.reached == 1
    assert server.general.texts == ["one", "two"]


async def test_planned_trouble(server: FakeDiscord, bot: Bot) -> None:
    """An error, a dropped connection, and a request that hangs until it is released."""
    general = bot.channel(server.general.id)
    server.fail_next("send_message", Fault.error(403, 50013))
    with refused(50013, status=403):
        await general.send("a")
    server.fail_next("send_message", Fault.drop())
    with pytest.raises(aiohttp.ClientError):
        await general.send("b")
    assert server.general.messages == []
    hang = server.fail_next("send_message", Fault.hang())
    sending = asyncio.create_task(general.send("c"))
    await hang.arrived()
    assert server.general.messages == []
    hang.release()
    await sending
    assert server.general.texts == ["c"]


async def test_edits_in_flight_are_counted(server: FakeDiscord, bot: Bot) -> None:
    """Two edits of one message at the same time do not go unnoticed."""
    sent = await bot.channel(server.general.id).send("0")
    await sent.edit(content="1")
    message = server.general.messages[0]
    assert message.most_edits_in_flight == 1
    hang = server.fail_next("edit_message", Fault.hang())
    edits = [asyncio.create_task(sent.edit(content=text)) for text in "23"]
    await server.called("edit_message", 3)
    hang.release()
    await asyncio.gather(*edits)
    assert message.most_edits_in_flight == 2


async def test_missed_messages_can_be_fetched(server: FakeDiscord) -> None:
    """While the bot is away people write; `after` finds it, oldest page first."""
    ada = server.person("Ada")
    seen = await ada.says("seen", channel=server.general)
    for number in range(3):
        await ada.says(f"missed {number}", channel=server.general)
    async with online(server) as bot:
        after = discord.Object(seen.id)
        missed = [m.content async for m in bot.channel(server.general.id).history(after=after, limit=2)]
        newest = [m.content async for m in bot.channel(server.general.id).history(limit=2)]
    assert missed == ["missed 0", "missed 1"]
    assert newest == ["missed 2", "missed 1"]


async def test_threads(server: FakeDiscord, bot: Bot) -> None:
    """A thread is a channel; opening one leaves a system message."""
    ada = server.person("Ada")
    thread = await ada.opens_thread("release", channel=server.general)
    opened = await bot.hears("release")
    assert opened.type is discord.MessageType.thread_created
    await ada.says("in here", channel=thread)
    heard = await bot.hears("in here")
    assert isinstance(heard.channel, discord.Thread)
    assert heard.channel.parent_id == server.general.id
    own = await (await heard.channel.send("and me")).channel.fetch_message(thread.messages[-1].id)
    starter = await opened.channel.send("start")
    await starter.create_thread(name="mine")
    assert server.channels[starter.id].name == "mine"
    assert own.content == "and me"
    thread.archived = thread.locked = True
    with refused(50083):
        await heard.channel.send("too late")


async def test_typing_and_reactions(server: FakeDiscord, bot: Bot) -> None:
    """Both are seen by people."""
    ada = server.person("Ada")
    hers = await ada.says("hi", channel=server.general)
    heard = await bot.hears("hi")
    async with heard.channel.typing():
        await server.general.typed()
    await heard.add_reaction("👀")
    assert hers.reactions == {"👀": [server.bot]}
    assert bot.user is not None
    await heard.remove_reaction("👀", bot.user)
    assert hers.reactions == {}


async def test_bots_and_webhooks_are_marked(server: FakeDiscord, bot: Bot) -> None:
    """So that the bot need not answer them."""
    await server.other_bot("Crier").says("news", channel=server.general)
    assert (await bot.hears("news")).author.bot
    await server.webhook("CI", server.general).says("build failed")
    assert (await bot.hears("build failed")).webhook_id is not None


async def test_a_wrong_token_is_refused(server: FakeDiscord) -> None:
    """By REST, before the gateway is asked."""
    with pytest.raises(discord.LoginFailure):
        async with online(server, token="wrong"):
            pass
    assert [call.status for call in server.refusals] == [401]


async def test_what_discord_does_not_have(server: FakeDiscord, bot: Bot) -> None:
    """An unknown route is 404, broken JSON is 50109."""
    with refused(0, status=404):
        await bot.request("GET", "/users/@me/feelings")
    url = f"{server.api_base}/channels/{server.general.id}/messages"
    headers = {"Authorization": f"Bot {server.token}", "Content-Type": "application/json"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(url, data=b"{") as response,
    ):
        assert (await response.json())["code"] == 50109
        assert response.headers["Content-Type"] == "application/json"
