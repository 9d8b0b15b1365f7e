"""When a service is away for a while, the others go on, and what was said meanwhile is answered after."""

from __future__ import annotations

from tests.contract.platforms.conftest import Surfaces
from tests.contract.platforms.harness import ContractHarness
from tests.contract.platforms.scripted_model import Model
from tests.contract.platforms.surface import CONTRACT, ChatSurface, on

pytestmark = CONTRACT

OTHERS = {"telegram": "discord", "discord": "telegram"}


@on("strangers")
async def test_a_service_is_away(
    surface: ChatSurface, surfaces: Surfaces, harness: ContractHarness, model: Model
) -> None:
    """`/healthz` tells which; the other one and the page answer; once it is back, what was written is answered."""
    ada = await surface.person()
    await ada.asks("good morning")
    await surface.goes_down()
    try:
        await harness.becomes(surface.name, "down")
        await ada.says("is anybody there?")
        for name in (OTHERS[surface.name], "web"):
            bob = await surfaces[name].person("Bob")
            await bob.asks("do you still answer?")
            assert (await harness.health())[name] == "up"
    finally:
        await surface.comes_back()
    await harness.becomes(surface.name, "up")
    await ada.is_answered("is anybody there?")
    await ada.asks("good night")
    assert ada.count("is anybody there?") == 1


async def test_the_gateway_asks_to_reconnect(
    harness: ContractHarness, surfaces: Surfaces, model: Model
) -> None:
    """Discord's opcode 7 and a torn connection: the session is resumed and nothing is lost or answered twice."""
    ada = await surfaces["discord"].person()
    gateway = harness.discord.gateway
    for number, interrupt in enumerate((gateway.ask_to_reconnect, gateway.abort)):
        resumed = gateway.resumes
        interrupt()
        await ada.says(f"question {number} amid noise")
        await gateway.resumed(resumed + 1)
        await ada.is_answered(f"question {number} amid noise")
    assert len(ada.visible()) == len(model.requests("amid noise")) == 2


async def test_the_session_is_invalid(harness: ContractHarness, surfaces: Surfaces, model: Model) -> None:
    """Discord's opcode 9: a new session begins, and what was written in between is fetched."""
    ada = await surfaces["discord"].person()
    await ada.asks("before it")
    identified = len(harness.discord.gateway.identifies)
    harness.discord.gateway.invalidate(resumable=False)
    await ada.says("in between")
    await harness.discord.gateway.identified(identified + 1)
    await ada.is_answered("in between")
    await ada.asks("after it")
    assert len(ada.visible()) == 3
