"""Contract: finding again what was said."""

from __future__ import annotations

from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.fts_text import parse_query
from agent.messages import Message, Role
from agent.store import Address, Conversation, SearchHit, SessionStore, Split
from gateway.store.sql.database import Scope
from gateway.store.sql.indexer import Entry
from gateway.store.sqlite.search import SCORED, find
from gateway.store.sqlite.search_index import index_in_memory


async def _said(store: SessionStore, conversation: Conversation, *texts: str, role: Role = "user") -> None:
    await store.append(conversation.live_session_id, [Message(role=role, content=text) for text in texts])


def _texts(hits: list[SearchHit]) -> list[str]:
    return [hit.message.content for hit in hits]


def _plain(snippet: str) -> str:
    return snippet.replace("\x02", "").replace("\x03", "")


@pytest.mark.parametrize(
    ("text", "query", "marked"),
    [
        ("We were running late", "runs", "\x02running\x03"),
        ("Two bicycles were stolen", "bicycle", "\x02bicycles\x03"),
        ("Das Café in Zürich", "cafe zurich", "\x02Café\x03 in \x02Zürich\x03"),
        ("Order number A-1047 shipped", "a-1047", "\x02A-1047\x03"),
        ("我们明天去北京开会", "北京", "我们明天去\x02北京\x03开会"),
        ("昨日は東京で会議をしました", "会議", "昨日は東京で\x02会議\x03をしました"),
        ("カタカナのコンピュータ", "コンピュータ", "カタカナの\x02コンピュータ\x03"),
        ("ｶﾀｶﾅで書いた", "カタカナ", "\x02カタカナ\x03で書いた"),
        ("내일 서울에서 만나요", "서울", "내일 \x02서울\x03에서 만나요"),
        ("พรุ่งนี้ไปกรุงเทพ", "กรุงเทพ", "\x02กรุงเทพ\x03"),
        ("the iPhone電池 is empty", "電池", "iPhone\x02電池\x03"),
        ("我", "我", "\x02我\x03"),
    ],
)
async def test_words_are_found_in_their_language(
    store: SessionStore, conversation: Conversation, text: str, query: str, marked: str
) -> None:
    """Word forms in English, accents left out, and words of any length where no spaces are written."""
    await _said(store, conversation, "something else entirely", text, "完全不同的句子")
    hits = await store.search(query)
    assert _texts(hits) == [text]
    assert marked in hits[0].snippet


async def test_parts_of_a_word_are_not_the_word(store: SessionStore, conversation: Conversation) -> None:
    """Two separate characters are not a word of two characters."""
    await _said(store, conversation, "京の東", "東京")
    assert _texts(await store.search('"東京"')) == ["東京"]


async def test_a_quoted_phrase_is_honoured(store: SessionStore, conversation: Conversation) -> None:
    """A quoted phrase must occur literally, with any other words."""
    await _said(store, conversation, "cream on ice", "ice cream with vanilla", "I like ice cream", "vanilla")
    assert _texts(await store.search('"ice cream"')) == ["I like ice cream", "ice cream with vanilla"]
    assert _texts(await store.search('vanilla "ice cream"')) == ["ice cream with vanilla", "I like ice cream"]


async def test_all_words_come_before_some(store: SessionStore, conversation: Conversation) -> None:
    """A question in whole sentences finds what has a few of its words, after what has all of them."""
    await _said(
        store, conversation, "the dentist called", "my appointment", "dentist appointment", "nothing of that"
    )
    hits = _texts(await store.search("When is the appointment with my dentist?"))
    assert hits[0] == "dentist appointment"
    assert set(hits) == {"dentist appointment", "the dentist called", "my appointment"}
    assert _texts(await store.search("dentist appointment", limit=1)) == ["dentist appointment"]


async def test_a_long_question_in_chinese_finds_by_its_words(
    store: SessionStore, conversation: Conversation
) -> None:
    """A sentence without spaces matches by its pairs of characters."""
    await _said(store, conversation, "我在北京吃了烤鸭", "今天下雨")
    assert _texts(await store.search("你还记得那家烤鸭店吗")) == ["我在北京吃了烤鸭"]


async def test_what_tools_put_out_comes_after_what_was_said(
    store: SessionStore, conversation: Conversation
) -> None:
    """Tool output is searchable, and does not bury the people."""
    await _said(store, conversation, "the invoice is overdue")
    await _said(store, conversation, "invoice invoice invoice", role="tool")
    assert _texts(await store.search("invoice")) == ["the invoice is overdue", "invoice invoice invoice"]


async def test_a_search_stays_within_its_scope(store: SessionStore, conversation: Conversation) -> None:
    """One person never sees another's words, and a conversation can be searched alone."""
    hers = await store.open_conversation(Address("telegram", "1"), person="ada")
    his = await store.open_conversation(Address("web", "2"), person="bob")
    await _said(store, conversation, "tea in the web")
    await _said(store, hers, "tea in telegram")
    await _said(store, his, "tea of bob")
    assert set(_texts(await store.search("tea", person="ada"))) == {"tea in the web", "tea in telegram"}
    assert _texts(await store.search("tea", conversation_id=hers.id)) == ["tea in telegram"]
    assert await store.search("tea", person="bob", conversation_id=hers.id) == []
    assert len(await store.search("tea")) == 3
    (hit,) = await store.search("bob")
    assert hit.conversation_id == his.id


async def test_the_names_of_a_scope_are_no_words(store: SessionStore, conversation: Conversation) -> None:
    """Nothing that the index knows about a message beside its text can be found by typing it."""
    await _said(store, conversation, "hello")
    for query in ("ada", conversation.id, "scope", "said", "scope:ada", "said:hello OR x"):
        assert all("hello" in query for _ in await store.search(query))


async def test_a_message_is_found_once_through_every_split(
    store: SessionStore, conversation: Conversation
) -> None:
    """References and summaries of a message are not the message: each was said once and is found once."""
    await _said(store, conversation, "the treasure is under the oak")
    (treasure,) = await store.history(conversation.live_session_id)
    session_id = conversation.live_session_id
    for _ in range(3):
        summary = Message(role="user", content="treasure under oak", kind="summary")
        pruned = Message(role="user", content="treasure", kind="pruned", source_id=treasure.id)
        session_id = (await store.split(Split(session_id, "compression", [treasure.id, summary, pruned]))).id
    hits = await store.search("treasure", conversation_id=conversation.id)
    assert [hit.message for hit in hits] == [treasure]


async def test_no_more_than_the_limit(store: SessionStore, conversation: Conversation) -> None:
    """Of equals the newest come first; a limit of nothing gives nothing."""
    await _said(store, conversation, *(f"apple {letter}" for letter in "abcdefgh"))
    assert _texts(await store.search("apple", limit=3)) == ["apple h", "apple g", "apple f"]
    assert await store.search("apple", limit=0) == []
    assert await store.search("apple", limit=-1) == []


async def test_of_very_many_the_newest_that_were_said(
    store: SessionStore, conversation: Conversation
) -> None:
    """A frequent word returns the newest messages, tools last; beside a rarer word it is ignored."""
    await _said(store, conversation, *(f"apple {number} pie" for number in range(SCORED)))
    await _said(store, conversation, *(f"apple {number} log" for number in range(5)), role="tool")
    newest = [f"apple {number} pie" for number in reversed(range(SCORED))]
    assert _texts(await store.search("apples", limit=3)) == newest[:3]
    everything = _texts(await store.search("apples", limit=1_000))
    assert everything == newest + [f"apple {number} log" for number in reversed(range(5))]
    assert _texts(await store.search("apples of 77 pears")) == ["apple 77 pie"]


async def test_a_snippet_shows_the_place(store: SessionStore, conversation: Conversation) -> None:
    """From the middle of a long text, on one line, and with nothing in it that could pass for a mark."""
    filler = "\x02word\x03 " * 5_000
    await _said(store, conversation, f"{filler}\nthe hidden needle\nlies here {filler}")
    (hit,) = await store.search("needles")
    assert "the hidden \x02needle\x03 lies here" in hit.snippet
    assert hit.snippet.count("\x02") == hit.snippet.count("\x03") == 1
    assert len(hit.snippet) < 400


_ODD = [
    "",
    "   ",
    '"',
    '""',
    '"unclosed',
    "'",
    "*",
    "a*",
    "(",
    ")",
    "AND",
    "NOT x",
    "NEAR(a b, 2)",
    "a OR",
    "{x}:y",
]
_ODDER = ["said:", "-", "^a", "\\", "\0", "a\0b", "\ud800", "\U0001f600", "%", ";--", "\x1f", "、。"]
_LONG = ["x" * 100_000, "word " * 5_000, "北" * 5_000]


@pytest.mark.parametrize("query", _ODD + _ODDER + _LONG)
async def test_any_string_is_a_query(store: SessionStore, conversation: Conversation, query: str) -> None:
    """Operators, quotes, emoji and nothing at all: an answer, never an error."""
    await _said(store, conversation, "nothing to see")
    assert all(hit.message.content == "nothing to see" for hit in await store.search(query))


_SCRIPTS = st.sampled_from(
    "abcXYZ019 éßÅñ ΑβΓ жЩ אב عر ก東京都語かなカナ한국어 々〇ー _-.,;:!?'()[]{}*^+~/\\<>@#$%&=| \t\n\U0001f600"
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(_SCRIPTS, min_size=1, max_size=40))
def test_a_message_is_found_by_its_own_text(text: str) -> None:
    """A text in any script is found by the same text."""
    query = parse_query(text)
    with closing(index_in_memory([Entry(1, "user", text, "c", "p")])) as index:
        found = [match.seq for match in find(index, query, Scope("p", "c"), 5)]
    assert found == ([1] if query.terms or query.phrases else [])
