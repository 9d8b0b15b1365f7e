"""What must not get out: tokens into the log, and notifications to people nobody meant."""

from __future__ import annotations

from tests.contract.conftest import Surfaces
from tests.contract.discord import DiscordSurface
from tests.contract.house import House
from tests.contract.model import Model
from tests.contract.surfaces import CONTRACT, ChatSurface, on

pytestmark = CONTRACT


@on("strangers")
async def test_tokens_stay_out_of_the_log(surface: ChatSurface, house: House, model: Model) -> None:
    """At the level `debug`, and when connections break amid a request."""
    ada = await surface.person()
    surface.drop_next_message()
    await ada.asks("are you there?")
    log = "".join(house.hermes.output)
    assert "[debug" in log
    for token in (house.telegram.token, house.telegram.token.partition(":")[2], house.discord.token):
        assert token not in log


async def test_the_model_notifies_nobody(house: House, surfaces: Surfaces, model: Model) -> None:
    """Whatever a model writes, `@everyone` and mentions in it are text on Discord."""
    surface = surfaces["discord"]
    assert isinstance(surface, DiscordSurface)
    (ada,) = surface.group("Ada")
    role = house.discord.guild.add_role("crew", mentionable=True)
    answer = f"Wake up @everyone, @here, {role.mention} and {ada.who.mention}!"
    model.answers("wake", answer)
    await ada.says("wake them all")
    await ada.is_answered("Wake up")
    assert ada.visible() == [answer]
    assert not house.discord.pings()
