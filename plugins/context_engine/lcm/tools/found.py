"""Messages that may answer a question, where the model names no place to look."""

from __future__ import annotations

from ..messages import messages_by_key
from ..place import Place, present_turn
from ..search import Request, search
from .ids import conversation_here
from .passages import Passage

_HITS = 40


def found_for(place: Place, question: str) -> list[Passage]:
    """The best hits, in the order in which they were said."""
    model = place.model()
    with place.database.reading() as connection:
        conversation = conversation_here(connection, place)
        request = Request(question, without=present_turn(connection, place))
        hits = search(connection, [conversation], request, model).hits[:_HITS]
        found = messages_by_key(connection, (hit.key for hit in hits)).values()
    return [Passage(message.id, message) for message in sorted(found, key=lambda message: message.seq)]
