"""One harness for the whole contract, and a surface for each scenario."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from tests.contract.platforms.discord_driver import DiscordSurface
from tests.contract.platforms.harness import ContractHarness, Settings, open_harness
from tests.contract.platforms.scripted_model import Model
from tests.contract.platforms.surface import Surface
from tests.contract.platforms.telegram_driver import TelegramSurface
from tests.contract.platforms.terminal_driver import TerminalSurface
from tests.contract.platforms.web_driver import WebSurface

Surfaces = dict[str, Surface]


class Street:
    """The harness, shared by all scenarios."""

    def __init__(self, ground: Path) -> None:
        self.surfaces: Surfaces = {}
        self._ground = ground
        self._stack = AsyncExitStack()
        self._house: ContractHarness | None = None

    async def harness(self, settings: Settings) -> ContractHarness:
        if self._house is None:
            self._house = await self._stack.enter_async_context(open_harness(self._ground))
            self.surfaces = _surfaces(self._house, self._stack)
            await self._house.warms_up()
        if self._house.settings != settings:
            await self._house.hermes.stop()
            await self.starts_again(settings)
        return self._house

    async def starts_again(self, settings: Settings) -> None:
        """Whoever sat at a terminal has to open a new window."""
        assert self._house
        self._house.set_up(settings)
        await self._house.starts()
        self.surfaces = _surfaces(self._house, self._stack)

    async def close(self) -> None:
        self._house = None
        await self._stack.aclose()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def street(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Street]:
    street = Street(tmp_path_factory.mktemp("contract"))
    yield street
    await street.close()


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def closed_after_the_last(request: pytest.FixtureRequest, street: Street) -> AsyncIterator[None]:
    """Other tests may follow, and Hermes would live on beside them."""
    yield
    here = Path(__file__).parent
    if request.node is [item for item in request.session.items if item.path.parent == here][-1]:
        await street.close()


@pytest.fixture
def settings() -> Settings:
    """A file of scenarios for other settings says so by a fixture of this name."""
    return "usual"


@pytest_asyncio.fixture(loop_scope="session")
async def harness(street: Street, settings: Settings) -> ContractHarness:
    return await street.harness(settings)


@pytest.fixture
def surfaces(street: Street, harness: ContractHarness) -> Surfaces:
    return street.surfaces


@pytest.fixture
def surface(request: pytest.FixtureRequest, surfaces: Surfaces) -> Surface:
    return surfaces[request.param]


@pytest.fixture
def model(harness: ContractHarness) -> Iterator[Model]:
    harness.model.forget()
    yield harness.model
    assert harness.model.refusals == [], "Hermes asked its model something malformed"


def _surfaces(harness: ContractHarness, stack: AsyncExitStack) -> Surfaces:
    return {
        "telegram": TelegramSurface(harness),
        "discord": DiscordSurface(harness),
        "web": WebSurface(harness, stack),
        "terminal": TerminalSurface(harness, stack),
    }
