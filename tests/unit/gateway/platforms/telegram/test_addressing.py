"""In a group: what is meant for the bot, and what remains of the text without its name."""

from __future__ import annotations

import pytest

from tests.support.telegram_harness import TelegramHarness


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
async def test_in_a_group(harness: TelegramHarness, said: str, text: str, addressed: bool) -> None:
    """By name, by command, or not at all; names are found by UTF-16 units."""
    team = harness.server.group("Team", harness.ada)
    got = await harness.says(said, chat=team)
    assert (got.text, got.addressed) == (text, addressed)


@pytest.mark.parametrize("order", [("bold", "bot_command"), ("bot_command", "bold")])
async def test_a_command_in_bold(harness: TelegramHarness, order: tuple[str, str]) -> None:
    """Two things begin where it begins, and Telegram tells them in either order."""
    team = harness.server.group("Team", harness.ada)
    entities = [{"type": kind, "offset": 0, "length": 18} for kind in order]
    got = await harness.shows(team, text="/status@hermes_bot now", entities=entities)
    assert (got.text, got.addressed) == ("/status now", True)


async def test_a_mention_without_a_username(harness: TelegramHarness) -> None:
    """A link to the account counts, by its number."""
    team = harness.server.group("Team", harness.ada)
    got = await harness.says("😀 Hermes, hello", chat=team, mentions={"Hermes": harness.server.bot.user})
    assert (got.text, got.addressed) == ("😀, hello", True)


async def test_a_mention_of_somebody_else_without_a_username(harness: TelegramHarness) -> None:
    """The same words with another account behind them are not for the bot."""
    team = harness.server.group("Team", harness.ada)
    got = await harness.says("Hermes, hello", chat=team, mentions={"Hermes": harness.ada.user})
    assert (got.text, got.addressed) == ("Hermes, hello", False)


async def test_a_mention_in_a_caption(harness: TelegramHarness, photo: bytes) -> None:
    """Under a picture as well."""
    team = harness.server.group("Team", harness.ada)
    await harness.ada.sends_photo(photo, "@hermes_bot what is it?", chat=team)
    got = await harness.receiver.next()
    assert (got.text, got.addressed) == ("what is it?", True)


async def test_a_reply_to_the_bot_addresses_it(harness: TelegramHarness) -> None:
    """A reply to another person does not."""
    team = harness.server.group("Team", harness.ada)
    mine = await harness.ada.says("hello", chat=team)
    place = (await harness.receiver.next()).place
    await harness.port.send(place, "I am here.")
    to_bot = await harness.says("good", chat=team, reply_to=team.from_bot[-1])
    to_ada = await harness.says("better", chat=team, reply_to=mine)
    assert (to_bot.addressed, to_ada.addressed) == (True, False)


async def test_a_command_for_another_bot_is_not_ours_even_as_a_reply(harness: TelegramHarness) -> None:
    """It names who is meant."""
    team = harness.server.group("Team", harness.ada)
    await harness.says("hello", chat=team)
    place = harness.receiver.messages[-1].place
    await harness.port.send(place, "I am here.")
    got = await harness.says("/stats@other_bot", chat=team, reply_to=team.from_bot[-1])
    assert not got.addressed


async def test_in_a_topic_opened_by_the_bot_not_all_is_for_it(harness: TelegramHarness) -> None:
    """Telegram tells every message of a topic as a reply to the note that opened it."""
    team = harness.server.supergroup("Team", harness.ada, forum=True)
    topic = team.topic("Billing")
    opening = team.topic_opening(topic.id)
    assert opening is not None
    opening.sender = harness.server.bot.user
    got = await harness.says("to all", chat=team, thread=topic)
    assert not got.addressed


async def test_a_direct_command_for_another_bot(harness: TelegramHarness) -> None:
    """Even here it is not taken for ours."""
    got = await harness.says("/status@other_bot")
    assert (got.text, got.addressed) == ("/status@other_bot", False)


@pytest.mark.parametrize("said", ["/start", "/start from_a_link", "/start@hermes_bot"])
async def test_the_start_button(harness: TelegramHarness, said: str) -> None:
    """Every chat with a bot begins with it; it asks what the bot can do."""
    assert (await harness.says(said)).text == "/help"
