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


class SharedHarness:
    """The harness, shared by all scenarios."""

    def __init__(self, folder: Path) -> None:
        self.surfaces: Surfaces = {}
        self._folder = folder
        self._stack = AsyncExitStack()
        self._harness: ContractHarness | None = None

    async def harness(self, settings: Settings) -> ContractHarness:
        if self._harness is None:
            self._harness = await self._stack.enter_async_context(open_harness(self._folder))
            self.surfaces = _surfaces(self._harness, self._stack)
            await self._harness.warms_up()
        if self._harness.settings != settings:
            await self._harness.hermes.stop()
            await self.restart(settings)
        return self._harness

    async def restart(self, settings: Settings) -> None:
        """Restart Hermes with other settings. Terminals must be opened again."""
        assert self._harness
        self._harness.set_up(settings)
        await self._harness.starts()
        self.surfaces = _surfaces(self._harness, self._stack)

    async def close(self) -> None:
        self._harness = None
        await self._stack.aclose()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SharedHarness]:
    shared = SharedHarness(tmp_path_factory.mktemp("contract"))
    yield shared
    await shared.close()


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def closed_after_the_last(request: pytest.FixtureRequest, shared: SharedHarness) -> AsyncIterator[None]:
    """Other tests may follow, and Hermes would live on beside them."""
    yield
    here = Path(__file__).parent
    if request.node is [item for item in request.session.items if item.path.parent == here][-1]:
        await shared.close()


@pytest.fixture
def settings() -> Settings:
    """A file of scenarios for other settings says so by a fixture of this name."""
    return "usual"


@pytest_asyncio.fixture(loop_scope="session")
async def harness(shared: SharedHarness, settings: Settings) -> ContractHarness:
    return await shared.harness(settings)


@pytest.fixture
def surfaces(shared: SharedHarness, harness: ContractHarness) -> Surfaces:
    return shared.surfaces


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
