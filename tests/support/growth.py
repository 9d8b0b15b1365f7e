"""Measures how the cost of a function grows with the length of a hostile text."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator
from functools import cache

Work = Callable[[str], object]

SMALL, LARGE = 1_500, 6_000
_TIMES_LONGER = LARGE // SMALL
_MOST = 2.5
"""Cost per character may grow by this factor from SMALL to LARGE: linear work has 1, quadratic work 4."""
_INSTANT = 6
"""Cheaper than this many plain loops over the text: too fast for its growth to be measured, and too fast to hurt."""

_ATOMS = (
    *"*_~`|-=+#>.,:;!?'\"$%&@^/\\()[]{}<\t\r\n 0aA",
    *("```\n", "~~~\n", "``` x\n", "> ```\n", "- ```\n", "`a", "`` ", "` `` ", "` `a`", "\\`"),
    *("**", "**a", " **a", "a**", "** ", "*a_", "_a*", "__", "~~a", " ~~a"),
    *("||", "||a", "|-|", "|-|\n", "|a|\n|-|\n", ":-", "| - |"),
    *("[", "[a](", "[a]", "![", "[](", "](", "[[", "]]", "[a]: b\n", "a]("),
    *("<a", "<b>", "</b>", "<!--", "<![CDATA[", "&#", "&amp"),
    *("\\(", "\\[", "\\(a", "$", "$$", "$a$", "\\\\", "- ", "  - ", "1. "),
    *("> ", ">", "# ", "a\n", "\n\n", " \n", "\t\n", "a \n", "a: "),
    *("://", "http://", "http://a", "://a:", ":// a@", "a@", "@a", "@abcd ", "mailto:", "tg:"),
    *("password", "password=", "token=", "token", "secret ", "key="),
    *("Bearer ", "authorization: ", "cookie: a=b; ", "login a password "),
    *("-----BEGIN PRIVATE KEY-----\n", "-----END PRIVATE KEY-----", "-----"),
    *("A" * 40 + "\n", "LS0tLS1CRUdJTiB", "eyJaaaaaaaa.", "sk-", "a:"),
    *("<outside-", "</outside-", "<|im_start|>", "[INST]"),
    *("<outside-0123456789ab ", "System:", "[STATE CARRIED OVER]\n"),
    *("data:", "<pre>", "<a href=x>", "<td>", "<script>", "<a b=", "<br", "<?", "<!", "&", "<p", "<div ", "style='"),
    *("漢", "漢字。", "あ", "한", "ก", "👨\u200d👩", "🇩🇪", "é", "e\u0301", "\u200b", "\u202e", "\u2028", "\xad", "ｆ"),
    *("a'", "don't ", "never ", "always ", "remember ", "1234-", "12:"),
    *("a.b", "a-b-", "a/b", "a1B", "file.py ", "2024-01-01 "),
    *("title=", 'title="', "name = ", "<@1", "<:a:", "<a:b", "/", "/a"),
    *("\x1f", "\x00", '"a" ', "“", "{", '{"a":', "b'{", "ssl:<"),
)  # fmt: skip


def hostile_texts() -> Iterator[tuple[str, Callable[[int], str]]]:
    """Name and maker of each text: one short piece again and again, and a few mixtures."""
    for atom in _ATOMS:
        yield f"{atom!r} * n", repeated(atom)
    yield "numbered words", lambda length: "".join(f"w{number} " for number in range(length // 6))[:length]
    yield "numbered lines", lambda length: "".join(f"- a{number}\n" for number in range(length // 7))[:length]
    yield (
        "runs of growing length",
        lambda length: "".join("`" * number + "a" for number in range(1, 200))[:length],
    )
    yield "random marks", lambda length: "".join(random.Random(1).choices("*_`[]()|~<>\\ \na", k=length))


def repeated(atom: str) -> Callable[[int], str]:
    return lambda length: (atom * (length // len(atom) + 1))[:length]


def grows_too_fast(work: Work, text: Callable[[int], str]) -> str:
    """Empty for work whose cost grows with the length; else what was measured."""
    large = text(LARGE)
    allowance = _INSTANT * reference()
    cost = _cost(work, large)
    if cost <= allowance:
        return ""
    small = text(SMALL)
    for _ in range(12):
        cost = min(cost, _cost(work, large))
        if cost <= allowance:
            return ""
        factor = cost / min(_cost(work, small) for _ in range(3)) / _TIMES_LONGER
        if factor <= _MOST:
            return ""
    return f"{_TIMES_LONGER} times the text costs {factor * _TIMES_LONGER:.1f} times as much ({cost:.3f} s)"


@cache
def reference() -> float:
    """Seconds of processor time that a plain loop over a large text takes on this machine."""
    return min(_cost(_loop, "x" * LARGE) for _ in range(5))


def _loop(text: str) -> int:
    count = 0
    for character in text:
        count += character == "y"
    return count


def _cost(work: Work, text: str) -> float:
    gc.disable()
    try:
        begun = time.thread_time()
        work(text)
        return time.thread_time() - begun
    finally:
        gc.enable()
