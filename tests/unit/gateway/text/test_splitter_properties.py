"""Properties of the messages of any text."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.text.splitter import split_first
from gateway.text.unicode import INVISIBLE, Measure, utf16_length
from tests.support.joined_text import is_whole, split_text
from tests.support.markdown_texts import texts

limits = st.one_of(st.integers(40, 200), st.integers(16, 4096))
measures: st.SearchStrategy[Measure] = st.sampled_from([len, utf16_length])


@given(texts, limits, measures)
@settings(max_examples=80, deadline=None)
def test_nothing_is_lost_repeated_or_reordered(text: str, limit: int, measure: Measure) -> None:
    """The messages together are the text."""
    assert is_whole(text, split_text(text, limit, measure))


@given(texts, limits, measures)
@settings(max_examples=80, deadline=None)
def test_every_message_fits_and_shows_something(text: str, limit: int, measure: Measure) -> None:
    """No platform refuses a message as too long or as empty."""
    for piece in split_text(text, limit, measure):
        assert measure(piece) <= limit
        assert piece.strip(INVISIBLE)


@given(texts, limits, measures)
@settings(max_examples=50, deadline=None)
def test_a_text_that_fits_is_unchanged(text: str, limit: int, measure: Measure) -> None:
    """Even its white space is unchanged."""
    if measure(text) <= limit:
        assert split_first(text, limit, measure) == (text, "")


@given(texts, limits, measures, st.data())
@settings(max_examples=80, deadline=None)
def test_growth_changes_no_finished_message(
    text: str, limit: int, measure: Measure, data: st.DataObject
) -> None:
    """A message that was finished while the answer arrived is the same once the answer is complete."""
    arrived = text[: data.draw(st.integers(0, len(text)))]
    piece, rest = split_first(arrived, limit, measure)
    if rest:
        final_piece, final_rest = split_first(text, limit, measure)
        assert piece == final_piece
        assert final_rest.startswith(rest)


@pytest.mark.parametrize("whole", [True, False], ids=["keeping the text", "keeping the rest"])
@given(text=texts.map(lambda text: text[:400]), limit=st.integers(40, 120), measure=measures)
@settings(max_examples=30, deadline=None)
def test_a_stream_ends_in_the_same_messages(text: str, limit: int, measure: Measure, whole: bool) -> None:
    """A stream of single characters gives the same messages, from the whole text and from the rest."""
    stream = _from_the_whole if whole else _from_the_rest
    assert stream(text, lambda pending: split_first(pending, limit, measure)) == split_text(
        text, limit, measure
    )


def _from_the_rest(text: str, first: Callable[[str], tuple[str, str]]) -> list[str]:
    sent, pending = [], ""
    for character in text:
        pending += character
        while (cut := first(pending))[1]:
            sent.append(cut[0])
            pending = cut[1]
    last = first(pending)[0]
    return [*sent, last] if last.strip(INVISIBLE) else sent


def _from_the_whole(text: str, first: Callable[[str], tuple[str, str]]) -> list[str]:
    sent: list[str] = []
    for end in range(len(text) + 1):
        found, rest = [], text[:end]
        while rest:
            piece, rest = first(rest)
            found.append(piece)
        assert found[: len(sent)] == sent
        sent = found[:-1]
    return [piece for piece in found if piece.strip(INVISIBLE)]
