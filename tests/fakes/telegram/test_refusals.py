"""The loopback Telegram refuses what the real one refuses, in the same words."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from telegram import (
    Bot,
    BotCommandScopeChat,
    ReplyParameters,
)
from telegram.error import (
    BadRequest,
    InvalidToken,
)

from tests.fakes.telegram.sdk import connected, entity, keyboard, newcomer, picture
from tests.fakes.telegram.server import FakeTelegram, Person


@pytest.fixture
async def server() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram() as server:
        yield server


@pytest.fixture
async def bot(server: FakeTelegram) -> AsyncIterator[Bot]:
    async with connected(server) as bot:
        yield bot


@pytest.fixture
def ada(server: FakeTelegram) -> Person:
    return newcomer(server)


Attempt = Callable[[Bot, int], Awaitable[Any]]


def saying(text: str, **more: Any) -> Attempt:
    return lambda bot, chat: bot.send_message(chat, text, **more)


def commands(*given: tuple[str, str]) -> Attempt:
    return lambda bot, chat: bot.set_my_commands(given)


REFUSED: dict[str, tuple[Attempt, str]] = {
    "no text": (saying(""), "message text is empty"),
    "only space": (saying(" \n "), "text must be non-empty"),
    "4097 characters": (saying("x" * 4097), "message is too long"),
    "2049 emoji are 4098 units": (saying("😀" * 2049), "message is too long"),
    "an entity past the end": (
        saying("short", entities=[entity("bold", 2, 9)]),
        "entity beginning at UTF-16 offset 2 ends after the end of the text at UTF-16 offset 11",
    ),
    "an entity that begins inside an emoji": (
        saying("😀😀", entities=[entity("bold", 1, 2)]),
        "entity begins in a middle of a UTF-16 symbol at byte offset 1",
    ),
    "an entity that ends inside an emoji": (
        saying("😀😀", entities=[entity("bold", 0, 3)]),
        "entity beginning at UTF-16 offset 0 ends in a middle of a UTF-16 symbol at byte offset 3",
    ),
    "an unknown entity": (
        saying("shiny", entities=[entity("glow", 0, 5)]),
        "can't parse MessageEntity: Unsupported type specified",
    ),
    "half an overlap": (
        saying("abcdef", entities=[entity("bold", 0, 4), entity("italic", 2, 4)]),
        "can't parse entities: entity beginning at UTF-16 offset 2 overlaps another one",
    ),
    "a link to nowhere": (
        saying("abc", entities=[entity("text_link", 0, 3)]),
        "can't parse MessageEntity: Can't find field \"url\"",
    ),
    "a link to a path": (
        saying("abc", entities=[entity("text_link", 0, 3, url="./README")]),
        "entity URL './README' is invalid: Wrong HTTP URL",
    ),
    "an open tag": (
        saying("<b>bold", parse_mode="HTML"),
        "can't parse entities: Can't find end tag corresponding to start tag \"b\"",
    ),
    "a foreign tag": (
        saying("ü<h1>Title</h1>", parse_mode="HTML"),
        'can\'t parse entities: Unsupported start tag "h1" at byte offset 2',
    ),
    "crossed tags": (
        saying("<b><i>x</b></i>", parse_mode="HTML"),
        'can\'t parse entities: Unmatched end tag at byte offset 7, expected "</i>", found "</b>"',
    ),
    "a tag without an end": (
        saying("1 <2", parse_mode="HTML"),
        "can't parse entities: Unclosed start tag at byte offset 2",
    ),
    "a lonely end tag": (
        saying("x</b>", parse_mode="HTML"),
        "can't parse entities: Unexpected end tag at byte offset 1",
    ),
    "a reserved character": (
        saying("Done.", parse_mode="MarkdownV2"),
        "can't parse entities: Character '.' is reserved and must be escaped with the preceding '\\'",
    ),
    "an open mark": (
        saying("so *bold", parse_mode="MarkdownV2"),
        "can't parse entities: Can't find end of Bold entity at byte offset 3",
    ),
    "an unknown parse mode": (saying("x", parse_mode="BBCode"), "unsupported parse_mode"),
    "65 bytes of callback data": (
        saying("x", reply_markup=keyboard("Go", callback_data="é" * 32 + "x")),
        "BUTTON_DATA_INVALID",
    ),
    "a button without a text": (
        saying("x", reply_markup=keyboard(" ", callback_data="go")),
        "inline keyboard button text must be non-empty",
    ),
    "a button that does nothing": (
        saying("x", reply_markup=keyboard("Go")),
        "can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard",
    ),
    "a button to nowhere": (
        saying("x", reply_markup=keyboard("Go", url="nowhere")),
        "inline keyboard button URL 'nowhere' is invalid: Wrong HTTP URL",
    ),
    "an unknown chat": (lambda bot, chat: bot.send_message(404, "x"), "chat not found"),
    "a topic where there are none": (saying("x", message_thread_id=7), "message thread not found"),
    "a reply to nothing": (
        saying("x", reply_parameters=ReplyParameters(99)),
        "message to be replied not found",
    ),
    "a quote nobody said": (
        saying("x", reply_parameters=ReplyParameters(1, quote="Ho")),
        "QUOTE_TEXT_INVALID",
    ),
    "a long caption": (
        lambda bot, chat: bot.send_document(chat, b"x", caption="x" * 1025),
        "message caption is too long",
    ),
    "an empty file": (lambda bot, chat: bot.send_document(chat, b""), "file must be non-empty"),
    "an unknown file": (
        lambda bot, chat: bot.send_document(chat, "FILE-9"),
        "wrong file identifier/HTTP URL specified",
    ),
    "a photo that is none": (lambda bot, chat: bot.send_photo(chat, b"x" * 99), "IMAGE_PROCESS_FAILED"),
    "a photo like a thread": (
        lambda bot, chat: bot.send_photo(chat, picture((2100, 100))),
        "PHOTO_INVALID_DIMENSIONS",
    ),
    "an edit of nothing": (
        lambda bot, chat: bot.edit_message_text("x", chat, 99),
        "message to edit not found",
    ),
    "an edit of another's message": (
        lambda bot, chat: bot.edit_message_text("x", chat, 1),
        "message can't be edited",
    ),
    "a deletion of nothing": (lambda bot, chat: bot.delete_message(chat, 99), "message to delete not found"),
    "a reaction to nothing": (
        lambda bot, chat: bot.set_message_reaction(chat, 99, "👍"),
        "message to react not found",
    ),
    "an unknown reaction": (
        lambda bot, chat: bot.set_message_reaction(chat, 1, "🧇"),
        "REACTION_INVALID",
    ),
    "an unknown action": (
        lambda bot, chat: bot.send_chat_action(chat, "thinking"),
        "wrong parameter action in request",
    ),
    "an answer to nothing": (
        lambda bot, chat: bot.answer_callback_query("1"),
        "query is too old and response timeout expired or query ID is invalid",
    ),
    "a file that is not there": (lambda bot, chat: bot.get_file("FILE-9"), "invalid file_id"),
    "a loud command": (commands(("Help", "Help")), "BOT_COMMAND_INVALID"),
    "a long command": (commands(("x" * 33, "Help")), "BOT_COMMAND_INVALID"),
    "a command without a description": (
        commands(("help", " ")),
        "command description must be non-empty",
    ),
    "a command with a novel": (
        commands(("help", "x" * 257)),
        "command description length must not exceed 256",
    ),
    "101 commands": (commands(*[(f"c{n}", "d") for n in range(101)]), "BOT_COMMANDS_TOO_MUCH"),
    "commands for an unknown chat": (
        lambda bot, chat: bot.set_my_commands([("a", "b")], scope=BotCommandScopeChat(404)),
        "chat not found",
    ),
    "a webhook far away": (
        lambda bot, chat: bot.set_webhook("https://example.org/hook"),
        "bad webhook: Failed to resolve host: this server delivers on the loopback interface only",
    ),
    "a secret with spaces": (
        lambda bot, chat: bot.set_webhook("http://127.0.0.1:1/hook", secret_token="a b"),
        "secret token contains unallowed characters",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_it_refuses_what_telegram_refuses(
    server: FakeTelegram, bot: Bot, ada: Person, name: str
) -> None:
    """Each broken rule is a 400 with Telegram's sentence, and the chat stays as it was."""
    attempt, sentence = REFUSED[name]

    with pytest.raises(BadRequest):
        await attempt(bot, ada.id)

    assert server.calls[-1].error == f"Bad Request: {sentence}"
    assert ada.chat.from_bot == []


async def test_the_limits_themselves_are_allowed(bot: Bot, ada: Person) -> None:
    """4096 units, 64 bytes of data, 100 commands; space around a text does not count."""
    await bot.send_message(ada.id, "😀" * 2048 + " \n")
    await bot.send_message(ada.id, "x", reply_markup=keyboard("Go", callback_data="é" * 32))
    await bot.set_my_commands([(f"c{n}", "d" * 256) for n in range(100)])

    assert ada.chat.texts == ["😀" * 2048, "x"]


@pytest.mark.parametrize(
    ("mode", "source", "text", "entities"),
    [
        ("HTML", "a &lt; <b>b<i>c</i></b>", "a < bc", [("bold", 4, 2), ("italic", 5, 1)]),
        ("HTML", '😀<a href="https://x.org/?a=1&amp;b=2">x</a>', "😀x", [("text_link", 2, 1)]),
        ("HTML", '<pre><code class="language-python">x = 1</code></pre>', "x = 1", [("pre", 0, 5)]),
        ("HTML", "<blockquote expandable>q</blockquote>", "q", [("expandable_blockquote", 0, 1)]),
        ("HTML", '<a href="./x">x</a><span class="tg-spoiler">y</span>', "xy", [("spoiler", 1, 1)]),
        ("MarkdownV2", r"*b _i_* 1\.5", "b i 1.5", [("bold", 0, 3), ("italic", 2, 1)]),
        ("MarkdownV2", "__u__ ~s~ ||p||", "u s p", [("underline", 0, 1), ("strikethrough", 2, 1), ("spoiler", 4, 1)]),
        ("MarkdownV2", "```py\nx.y\n``` `a.b`", "x.y\n a.b", [("pre", 0, 4), ("code", 5, 3)]),
        ("MarkdownV2", r"[link](https://x.org/\))", "link", [("text_link", 0, 4)]),
        ("MarkdownV2", ">q1\n>q2\nrest", "q1\nq2\nrest", [("blockquote", 0, 6)]),
    ],
)  # fmt: skip
async def test_formatting_becomes_entities(
    bot: Bot, ada: Person, mode: str, source: str, text: str, entities: list[tuple[str, int, int]]
) -> None:
    """Both parse modes show the text without its marks, and entities in UTF-16 units."""
    sent = await bot.send_message(ada.id, source, parse_mode=mode)

    assert sent.text == text == ada.chat.from_bot[0].text
    assert [(e.type, e.offset, e.length) for e in sent.entities] == entities


async def test_entities_follow_the_trimmed_text(bot: Bot, ada: Person) -> None:
    """Space before the text is cut off and offsets move; the end is cut; only the first hundred count."""
    shifted = await bot.send_message(ada.id, "\n\n bold \n", entities=[entity("bold", 3, 6)])
    nested = await bot.send_message(ada.id, "code", entities=[entity("code", 0, 4), entity("bold", 1, 2)])
    many = await bot.send_message(ada.id, "x" * 300, entities=[entity("bold", 2 * n, 1) for n in range(150)])

    assert (shifted.text, shifted.entities[0].offset, shifted.entities[0].length) == ("bold", 0, 4)
    assert [e.type for e in nested.entities] == ["code"]
    assert len(many.entities) == 100


async def test_tokens_and_methods(server: FakeTelegram) -> None:
    """An unknown token is 401, a malformed one and an unknown method are 404."""
    for token in ("123:unknown", "malformed"):
        stranger = connected(server, token)
        with pytest.raises(InvalidToken):
            await stranger.initialize()
        await stranger.shutdown()
    async with aiohttp.ClientSession() as http:
        answers = []
        for path in ("bot1:x/getMe", "botx/getMe", f"bot{server.token}/fly", f"bot{server.token}/GETME"):
            async with http.get(f"{server.url}/{path}") as response:
                answers.append((response.status, (await response.json()).get("description")))
    assert answers == [
        (401, "Unauthorized"), (404, "Not Found"), (404, "Not Found: method not found"), (200, None),
    ]  # fmt: skip
    assert len(server.strangers) == 4


async def test_parameters_come_in_every_wrapping(server: FakeTelegram, ada: Person) -> None:
    """Query, form, JSON and multipart mean the same."""
    url = f"{server.url}/bot{server.token}/sendMessage"
    values = {"chat_id": str(ada.id), "text": "42", "entities": '[{"type":"bold","offset":0,"length":2}]'}
    nested = {"chat_id": ada.id, "text": "42", "entities": [{"type": "bold", "offset": 0, "length": 2}]}
    multipart = aiohttp.FormData(values, default_to_multipart=True)
    async with aiohttp.ClientSession() as http:
        await http.get(url, params=values)
        await http.post(url, data=values)
        await http.post(url, json=nested)
        await http.post(url, data=multipart)

    shown = [(message.text, message.entities[0]["type"]) for message in ada.chat.from_bot]
    assert shown == [("42", "bold")] * 4
    assert all(call.params == nested for call in server.calls)
