"""What holds for the pieces of any text whatsoever."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.text.splitter import split_first, split_text
from gateway.text.unicode import INVISIBLE, Measure, utf16_length
from tests.text.markdown_texts import texts
from tests.text.whole import is_whole

limits = st.one_of(st.integers(40, 200), st.integers(16, 4096))
measures: st.SearchStrategy[Measure] = st.sampled_from([len, utf16_length])


@given(texts, limits, measures)
@settings(max_examples=80, deadline=None)
def test_nothing_is_lost_repeated_or_reordered(text: str, limit: int, measure: Measure) -> None:
    """The pieces together are the text."""
    assert is_whole(text, split_text(text, limit, measure))


@given(texts, limits, measures)
@settings(max_examples=80, deadline=None)
def test_every_piece_fits_and_shows_something(text: str, limit: int, measure: Measure) -> None:
    """No platform refuses a piece as too long or as empty."""
    for piece in split_text(text, limit, measure):
        assert measure(piece) <= limit
        assert piece.strip(INVISIBLE)


@given(texts, limits, measures)
@settings(max_examples=50, deadline=None)
def test_a_text_that_fits_is_left_alone(text: str, limit: int, measure: Measure) -> None:
    """Not even its white space is touched."""
    if measure(text) <= limit:
        assert split_first(text, limit, measure) == (text, "")


@given(texts, limits, measures)
@settings(max_examples=80, deadline=None)
def test_pieces_are_first_pieces_one_after_the_other(text: str, limit: int, measure: Measure) -> None:
    """The fast way over the whole text and the way a stream goes agree."""
    one_by_one, rest = [], text
    while rest:
        piece, rest = split_first(rest, limit, measure)
        one_by_one.append(piece)
    assert [piece for piece in one_by_one if piece.strip(INVISIBLE)] == split_text(text, limit, measure)


@given(texts, limits, measures, st.data())
@settings(max_examples=80, deadline=None)
def test_growth_changes_nothing_decided(text: str, limit: int, measure: Measure, data: st.DataObject) -> None:
    """A message that was finished while the answer arrived is the same when all of it is there."""
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
    """Character by character, whether the sender starts over from the text or goes on with the rest."""
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
