"""Privacy: no tokens in the log, and no unwanted notifications."""

from __future__ import annotations

from tests.contract.platforms.conftest import Surfaces
from tests.contract.platforms.discord_driver import DiscordSurface
from tests.contract.platforms.harness import ContractHarness
from tests.contract.platforms.scripted_model import Model
from tests.contract.platforms.surface import CONTRACT, ChatSurface, on

pytestmark = CONTRACT


@on("strangers")
async def test_tokens_stay_out_of_the_log(
    surface: ChatSurface, harness: ContractHarness, model: Model
) -> None:
    """At the level `debug`, and when connections break amid a request."""
    ada = await surface.person()
    surface.drop_next_message()
    await ada.asks("are you there?")
    log = "".join(harness.hermes.output)
    assert "[debug" in log
    for token in (harness.telegram.token, harness.telegram.token.partition(":")[2], harness.discord.token):
        assert token not in log


async def test_the_model_notifies_nobody(harness: ContractHarness, surfaces: Surfaces, model: Model) -> None:
    """`@everyone` and mentions in a model's text notify no one on Discord."""
    surface = surfaces["discord"]
    assert isinstance(surface, DiscordSurface)
    (ada,) = surface.group("Ada")
    role = harness.discord.guild.add_role("crew", mentionable=True)
    answer = f"Wake up @everyone, @here, {role.mention} and {ada.who.mention}!"
    model.answers("wake", answer)
    await ada.says("wake them all")
    await ada.is_answered("Wake up")
    assert ada.visible() == [answer]
    assert not harness.discord.pings()
