"""Several people in one place: who is answered, what the model knows of the others, what stays apart."""

from __future__ import annotations

from tests.contract.platforms.scripted_model import Model, heard, newest
from tests.contract.platforms.surface import CONTRACT, ChatSurface, on

pytestmark = CONTRACT


@on("groups")
async def test_only_who_addresses_the_bot_is_answered(surface: ChatSurface, model: Model) -> None:
    """What the others say to each other is not answered, but told with the next question, with their names."""
    ada, bob = surface.group("Ada", "Bob")
    await ada.says("shall we have lunch?", to_bot=False)
    await bob.says("there is pizza", to_bot=False)
    model.answers("what would you have", "The pizza.")
    await ada.says("what would you have?")
    await ada.is_answered("The pizza.")
    (asked,) = model.requests()
    told = newest(asked)
    assert "Ada: shall we have lunch?\nBob: there is pizza\n" in told
    assert told.endswith("]\nAda: what would you have?")
    assert ada.visible() == bob.visible() == ["The pizza."]


@on("groups")
async def test_what_was_overheard_is_told_once(surface: ChatSurface, model: Model) -> None:
    """It is part of the history after that, and not repeated with the next question."""
    ada, bob = surface.group("Ada", "Bob")
    await bob.says("the bridge is closed", to_bot=False)
    await ada.asks("which way?")
    await ada.asks("and back?")
    again = model.requests("and back?")[0]
    assert newest(again) == "Ada: and back?"
    assert sum("the bridge is closed" in message for message in heard(again)) == 1


@on("groups", "replies")
async def test_a_reply_to_the_bot_addresses_it(surface: ChatSurface, model: Model) -> None:
    """A reply to the bot addresses it without a mention; a reply to another person does not."""
    ada, bob = surface.group("Ada", "Bob")
    asked = await ada.says("who is there?")
    answer = await ada.is_answered("who is there?")
    await bob.says("good question", to_bot=False, reply_to=asked)
    model.answers("why?", "Somebody asked.")
    await bob.says("why?", to_bot=False, reply_to=answer)
    await bob.is_answered("Somebody asked.")
    assert len(model.requests()) == 2
    assert newest(model.requests()[1]).endswith("Bob: why?")


@on("threads")
async def test_a_thread_is_a_conversation_of_its_own(surface: ChatSurface, model: Model) -> None:
    """Each answer appears where its question was asked, and the two histories are separate."""
    (ada,) = surface.group("Ada")
    (there,) = surface.thread("Billing", ada)
    await ada.asks("the password of the day is heron")
    await there.asks("the invoice is late")
    assert not any("heron" in text for text in heard(model.requests("the invoice is late")[0]))
    await ada.asks("what else?")
    assert not any("invoice" in text for text in heard(model.requests("what else?")[0]))
    await there.uses("sessions")
    await there.is_answered("you are here")
    assert len(ada.visible()) == 2
    assert not any("you are here" in text for text in ada.visible())
