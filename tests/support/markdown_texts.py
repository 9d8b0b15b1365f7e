"""Hypothesis strategies for Markdown as models write it, and for broken Markdown."""

from hypothesis import strategies as st

_plain = ["a", "word", "Sentence.", "Really?", "snake_case_name", "1.", "\\*", "<b>", "&amp;"]
_marks = ["[x]", "*", "_", "`", "``", "||", "[", "](", ")"]
_spans = ["**bold text**", "*it*", "~~gone~~", "`code`", "``a ` b``", "![image](https://x.y/z.png)"]
_scripts = ["你好，世界。", "漢字", "שלום", "مرحبا", "\u200f", "\u200b", "e\u0301", "x\u0301\u0302\u0303"]
_emoji = ["❤\ufe0f", "👨\u200d👩\u200d👧\u200d👦", "🇩🇪🇫🇷", "👍🏽", "🎉"]
_long = [
    "https://example.com/very/long/path/to/it",
    "[a link](https://example.com/a_(b)?q=1)",
    "a" * 50,
    "é" * 30,
    "😀" * 20,
]
_words = st.sampled_from([*_plain, *_marks, *_spans, *_scripts, *_emoji, *_long])
_lines = st.lists(_words, min_size=1, max_size=12).map(" ".join)
_languages = st.sampled_from(["", "python", "c++", 'python title="app.py"', " sh"])
_ticks = st.sampled_from(["```", "````", "~~~", "`````"])
_indents = st.sampled_from(["", "", "", "  ", "    "])


@st.composite
def _code_blocks(draw: st.DrawFn) -> str:
    """Generate code blocks: closed or not, with blank lines, long lines and shorter fences inside."""
    indent, ticks, language = draw(_indents), draw(_ticks), draw(_languages)
    inner = st.sampled_from(
        ["", "", "x = 1", "    return 2  # note", "~~", "``", "# " + "long " * 30, "y" * 90, "中" * 40]
    )
    lines = [indent + line for line in draw(st.lists(inner, max_size=12))]
    closing = draw(st.sampled_from([[indent + ticks], [indent + ticks], [indent + ticks + "`" * 2], []]))
    return "\n".join([indent + ticks + language, *lines, *closing])


_items = st.lists(
    st.tuples(_indents, st.sampled_from(["- ", "* ", "1. "]), _lines).map("".join), min_size=1, max_size=6
)
_tables = st.lists(st.lists(_words, min_size=2, max_size=2), min_size=1, max_size=5).map(
    lambda rows: "\n".join(["| A | B |", "|---|:-:|", *(f"| {row[0]} | {row[1]} |" for row in rows)])
)
_blocks = st.one_of(
    _lines,
    _lines.map("## {}".format),
    _lines.map("> {}".format),
    _items.map("\n".join),
    _code_blocks(),
    _tables,
)
_separators = st.sampled_from(["\n\n", "\n\n", "\n", "\n\n\n", " ", "\r\n\r\n", "\n   \n"])

documents = st.lists(st.tuples(_blocks, _separators).map("".join), max_size=8).map("".join)
"""Blocks of every kind."""

noise = st.text(alphabet=list(" \n\t`~*_[]()|#->.a1中é👍\u200d\u0301\ufe0f\u200b\u200f🇩"), max_size=400)
"""Everything that means something to Markdown, in no order."""

texts = st.one_of(documents, noise, documents.map(lambda text: text[: len(text) * 2 // 3]))
