"""Answers as people read them: formatted, of any length, while they grow."""

from __future__ import annotations

import re

from tests.contract.platforms.scripted_model import Model
from tests.contract.platforms.surface import CONTRACT, ChatSurface, Surface, on
from tests.fakes.script import Reply

pytestmark = CONTRACT

LONG = "\n".join(
    f"{'- ' if number % 3 else ''}w{number:04} 漢字かな交じり文 and a few words more 🧭👩‍🚀 so that it fills up."
    for number in range(200)
)
WORDS = re.findall(r"w\d{4}", LONG)
"""Each occurs once, in this order."""


@on()
async def test_a_question_is_answered(surface: Surface, model: Model) -> None:
    """A person asks, the answer comes formatted, and nothing else is left to be seen."""
    ada = await surface.person()
    model.answers("which way", "It is **that way**, past the `mill`.")
    await ada.says("which way to the station?")
    await ada.is_answered("past the")
    assert await ada.sees_bold("that way")
    assert len(ada.visible()) == 1


@on("typing")
async def test_working_is_shown(surface: Surface, model: Model) -> None:
    """While nothing can be read yet, the chat shows that an answer is being written."""
    ada = await surface.person()
    model.answers("think hard", Reply("Done thinking.", hold=True))
    await ada.says("think hard")
    await ada.until(ada.is_typing_shown)
    assert ada.visible() == []
    model.release()
    await ada.is_answered("Done thinking.")
    assert ada.visible() == ["Done thinking."]


@on()
async def test_long_answers_arrive_whole(surface: Surface, model: Model) -> None:
    """Lists, emoji and Chinese: nothing is lost, repeated or out of order, and messages are full but not too long."""
    assert len(LONG) > 12_000
    ada = await surface.person()
    model.answers("everything", Reply(LONG, chunks=LONG.splitlines(keepends=True)))
    await ada.says("tell me everything")
    await ada.is_answered(WORDS[-1])
    seen = "\n".join(ada.visible())
    assert re.findall(r"w\d{4}", seen) == WORDS
    assert seen.count("漢字かな交じり文") == seen.count("🚀") == len(WORDS)
    sizes = [surface.size(text) for text in ada.visible()]
    assert max(sizes) <= surface.limit
    assert all(size > surface.limit * 0.8 for size in sizes[:-1])


@on("limits")
async def test_code_across_the_limit(surface: ChatSurface, model: Model) -> None:
    """A code block too long for one message is closed and opened again, and comes as a file besides."""
    code = "\n".join(f"value_{number} = {number}  # 数" for number in range(surface.limit // 16))
    ada = await surface.person()
    model.answers("program", f"Here:\n\n```python\n{code}\n```\n\nThat is the program.")
    await ada.says("write a program")
    await ada.is_answered("That is the program.")
    await ada.until(lambda: bool(ada.files()))
    (file,) = ada.files()
    assert file.data.decode().strip() == code
    assert file.name.endswith(".py")
    blocks = ada.code_blocks()
    assert len(blocks) > 1
    assert {language for language, _ in blocks} == {"python"}
    assert "\n".join(content.strip("\n") for _, content in blocks) == code


@on()
async def test_an_answer_grows(surface: Surface, model: Model) -> None:
    """What has been written can be read before the rest is there, and is a beginning of it."""
    ada = await surface.person()
    beginning, rest = "Once upon a time there was a lighthouse", " that nobody had ever seen lit. The end."
    model.answers("story", Reply(chunks=[beginning, rest], hold=True, after=1))
    await ada.says("tell me a story")
    growing = await ada.sees(beginning)
    assert growing.is_growing
    assert "nobody" not in growing.text
    model.release()
    await ada.is_answered("The end.")
    assert beginning + rest in "".join(ada.visible())


@on("limits")
async def test_the_service_asks_for_a_pause(surface: ChatSurface, model: Model) -> None:
    """A 429 amid the edits: they wait, never two are under way at once, and the text ends exact."""
    ada = await surface.person()
    parts = [f"Part {number} of a story that takes its time. " for number in range(4)]
    model.answers("slow story", Reply(chunks=parts, hold=True, after=2))
    has_happened = surface.slow_down_edits(1, after=0)
    await ada.says("a slow story please")
    first = await ada.sees("Part 1")
    assert "".join(parts).startswith(first.text.removesuffix("▌").rstrip())
    model.release()
    answer = await ada.is_answered("Part 3")
    assert has_happened()
    assert answer.text == "".join(parts).strip()
    assert ada.visible() == [answer.text]
    assert surface.most_edits_at_once() == 1
