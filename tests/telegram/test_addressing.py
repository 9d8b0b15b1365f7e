"""In a group: what is meant for the bot, and what remains of the text without its name."""

from __future__ import annotations

import pytest

from tests.telegram.bench import Bench


@pytest.mark.parametrize(
    ("said", "text", "addressed"),
    [
        ("@hermes_bot hello", "hello", True),
        ("@Hermes_Bot, hello", "hello", True),
        ("hello @hermes_bot", "hello", True),
        ("so @hermes_bot what now", "so what now", True),
        ("thanks @hermes_bot, bye", "thanks, bye", True),
        ("@hermes_bot", "", True),
        ("👩‍👩‍👧 😀 @hermes_bot 😀 look", "👩‍👩‍👧 😀 😀 look", True),
        ("@hermes_bot and @hermes_bot again", "and again", True),
        ("@somebody_else hello", "@somebody_else hello", False),
        ("mail me@hermes_bot", "mail me@hermes_bot", False),
        ("/compress@hermes_bot billing", "/compress billing", True),
        ("/Compress@HERMES_BOT\nbilling", "/Compress\nbilling", True),
        ("/compress billing", "/compress billing", True),
        ("/undo_compress", "/undo_compress", True),
        ("/stat", "/stat", True),
        ("/weather", "/weather", False),
        ("/weather@hermes_bot", "/weather", True),
        ("/compress@other_bot billing", "/compress@other_bot billing", False),
        ("@hermes_bot /status", "/status", True),
        ("I type /status", "I type /status", False),
    ],
)
async def test_in_a_group(bench: Bench, said: str, text: str, addressed: bool) -> None:
    """By name, by command, or not at all; names are found by UTF-16 units."""
    team = bench.world.group("Team", bench.ada)
    got = await bench.says(said, chat=team)
    assert (got.text, got.addressed) == (text, addressed)


@pytest.mark.parametrize("order", [("bold", "bot_command"), ("bot_command", "bold")])
async def test_a_command_in_bold(bench: Bench, order: tuple[str, str]) -> None:
    """Two things begin where it begins, and Telegram tells them in either order."""
    team = bench.world.group("Team", bench.ada)
    entities = [{"type": kind, "offset": 0, "length": 18} for kind in order]
    got = await bench.shows(team, text="/status@hermes_bot now", entities=entities)
    assert (got.text, got.addressed) == ("/status now", True)


async def test_a_mention_without_a_username(bench: Bench) -> None:
    """A link to the account counts, by its number."""
    team = bench.world.group("Team", bench.ada)
    got = await bench.says("😀 Hermes, hello", chat=team, mentions={"Hermes": bench.world.bot.user})
    assert (got.text, got.addressed) == ("😀, hello", True)


async def test_a_mention_of_somebody_else_without_a_username(bench: Bench) -> None:
    """The same words with another account behind them are not for the bot."""
    team = bench.world.group("Team", bench.ada)
    got = await bench.says("Hermes, hello", chat=team, mentions={"Hermes": bench.ada.user})
    assert (got.text, got.addressed) == ("Hermes, hello", False)


async def test_a_mention_in_a_caption(bench: Bench, photo: bytes) -> None:
    """Under a picture as well."""
    team = bench.world.group("Team", bench.ada)
    await bench.ada.sends_photo(photo, "@hermes_bot what is it?", chat=team)
    got = await bench.desk.next()
    assert (got.text, got.addressed) == ("what is it?", True)


async def test_a_reply_to_the_bot_addresses_it(bench: Bench) -> None:
    """And one to somebody else does not."""
    team = bench.world.group("Team", bench.ada)
    mine = await bench.ada.says("hello", chat=team)
    place = (await bench.desk.next()).place
    await bench.port.send(place, "I am here.")
    to_bot = await bench.says("good", chat=team, reply_to=team.from_bot[-1])
    to_ada = await bench.says("better", chat=team, reply_to=mine)
    assert (to_bot.addressed, to_ada.addressed) == (True, False)


async def test_a_command_for_another_bot_is_not_ours_even_as_a_reply(bench: Bench) -> None:
    """It names who is meant."""
    team = bench.world.group("Team", bench.ada)
    await bench.says("hello", chat=team)
    place = bench.desk.messages[-1].place
    await bench.port.send(place, "I am here.")
    got = await bench.says("/stats@other_bot", chat=team, reply_to=team.from_bot[-1])
    assert not got.addressed


async def test_in_a_topic_opened_by_the_bot_not_all_is_for_it(bench: Bench) -> None:
    """Telegram tells every message of a topic as a reply to the note that opened it."""
    team = bench.world.supergroup("Team", bench.ada, forum=True)
    topic = team.topic("Billing")
    opening = team.topic_opening(topic.id)
    assert opening is not None
    opening.sender = bench.world.bot.user
    got = await bench.says("to all", chat=team, thread=topic)
    assert not got.addressed


async def test_a_direct_command_for_another_bot(bench: Bench) -> None:
    """Even here it is not taken for ours."""
    got = await bench.says("/status@other_bot")
    assert (got.text, got.addressed) == ("/status@other_bot", False)


@pytest.mark.parametrize("said", ["/start", "/start from_a_link", "/start@hermes_bot"])
async def test_the_start_button(bench: Bench, said: str) -> None:
    """Every chat with a bot begins with it; it asks what the bot can do."""
    assert (await bench.says(said)).text == "/help"
