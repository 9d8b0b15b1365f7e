"""Button data comes from forged clients too."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import get_args

from hypothesis import example, given
from hypothesis import strategies as st

from agent.store import Address
from agent.testing import ScriptedLLM
from agent.tool import ApprovalRequest, Choice
from gateway.access import Gate, Pairing
from gateway.chat.callbacks import Callbacks
from gateway.chat.delivery.manager import DeliveryManager
from gateway.config.schema_platforms import TelegramBotConfig
from gateway.types import Author, Place, Press
from tests.support.agents import make_agent
from tests.support.chat_service import ChatService
from tests.support.fuzz_values import texts, tries
from tests.support.gateways import make_gateway
from tests.support.stores import temporary_store

ADA, BEN, STRANGER = Author("1", "Ada"), Author("2", "Ben"), Author("3", "Mallory")
HERE, ELSEWHERE = Place("1"), Place("2")
APPROVAL, CODE = "<the approval>", "<the code>"

words = st.one_of(
    texts, st.sampled_from(["approve", "pair", "yes", "no", APPROVAL, CODE, "Once", *get_args(Choice)])
)
data = st.one_of(texts, st.lists(words, max_size=5).map(":".join))


@given(data=data, author=st.sampled_from([ADA, BEN, STRANGER]), place=st.sampled_from([HERE, ELSEWHERE]))
@example(f"approve:{APPROVAL}:once", ADA, HERE)
@example(f"approve:{APPROVAL}:once", BEN, HERE)
@example(f"approve:{APPROVAL}:once", ADA, ELSEWHERE)
@example(f"pair:{CODE}:yes", ADA, HERE)
@example(f"pair:{CODE}:yes", BEN, ELSEWHERE)
@tries(60)
async def test_only_the_right_word_from_the_right_person_counts(
    tmp_path: Path, data: str, author: Author, place: Place
) -> None:
    """Everything else gets a sentence and changes nothing."""
    service, store = ChatService(), await temporary_store()
    gateway = make_gateway(make_agent(ScriptedLLM([]), store.sessions), store, tmp_path)
    settings = TelegramBotConfig.model_validate({"allowed_users": [1, 2], "admins": [1]})
    pairing = Pairing(store.access)
    delivery = DeliveryManager(gateway.hub, service)
    buttons = Callbacks(gateway, service, Gate("memory", settings, store.access), pairing, delivery)
    conversation = await store.sessions.open_conversation(Address("memory", HERE.chat_id), person="memory:1")
    code = await pairing.request("memory", STRANGER)
    assert code
    approve = gateway.approvals.approver(conversation.id, "memory:1")
    asking = asyncio.ensure_future(approve(ApprovalRequest("terminal", "{}")))
    await asyncio.sleep(0)
    (approval_id,) = gateway.approvals._pending

    meant = data.replace(APPROVAL, approval_id).replace(CODE, code.code)
    press = Press(place, author, "m1", meant)
    sentence = await buttons.pressed(press, person=f"memory:{author.id}")

    assert sentence and isinstance(sentence, str)
    await asyncio.sleep(0)
    decided = {f"approve:{approval_id}:{choice}" for choice in get_args(Choice)}
    assert asking.done() == (meant in decided and (author, place) == (ADA, HERE))
    let_in = [paired.user_id for paired in await pairing.approved()]
    is_right = meant.startswith("pair:") and meant.endswith(":yes") and author == ADA
    assert let_in == [] or (let_in == ["3"] and is_right)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await delivery.close()
    await store.close()
