"""What every test relies on: a state directory of its own, no keys, and an event loop that must not block."""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
import stamina
import structlog
from blockbuster import blockbuster_ctx
from hypothesis import settings

from tests.support.postgres import PostgresServer, running_server
from tests.support.stores import close_temporary_stores
from tests.workers import SharedStarts

if TYPE_CHECKING:
    from playwright.async_api import Browser

KEYS = (
    "HERMES_CONFIG",
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
    "NOUS_API_KEY",
    "TELEGRAM_BOT_TOKEN",
    "DISCORD_BOT_TOKEN",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
)

# Hermes refuses plugins that other users can write, so do not depend on the umask of the person who runs the tests.
os.umask(0o022)


# As `configure_logging` does: at the first retry the library would look for others' hooks, and read files for that.
stamina.instrumentation.set_on_retry_hooks([])


@pytest.fixture(autouse=True)
def default_logging() -> Iterator[None]:
    """Undo what a test configured: the next one may look at log lines below its level."""
    yield
    structlog.reset_defaults()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run what is marked `long`, too")


def pytest_configure(config: pytest.Config) -> None:
    """`make test` tries the same examples each time; `make test-long` and `make fuzz` look for new ones.

    An example has no deadline: its time depends on what else the machine does, and figures belong in bench/.
    """
    looks_for_new = config.getoption("--long") or "HERMES_FUZZ" in os.environ
    settings.register_profile("hermes", deadline=None, derandomize=not looks_for_new)
    settings.load_profile("hermes")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SharedStarts:
    return SharedStarts(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is marked `long` is the same as a shorter test beside it, with larger numbers."""
    if not config.getoption("--long"):
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="takes minutes; `make test-long` runs it"))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a migrated database that is deleted at the end."""
    url = postgres_server.database()
    yield url
    postgres_server.drop(url)


@pytest.fixture(params=["sqlite", "postgres"])
def store_location(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """The path of an SQLite file, or the URL of a PostgreSQL database."""
    is_file = request.param == "sqlite"
    return tmp_path / "state.db" if is_file else str(request.getfixturevalue("postgres_url"))


@pytest.fixture(autouse=True)
def private_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep every test away from the user's real state directory and keys."""
    home = tmp_path / "hermes-home"
    monkeypatch.setenv("HERMES_HOME", str(home))
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture(autouse=True)
def close_stores(request: pytest.FixtureRequest, private_home: Path) -> None:
    """Close the stores that an asynchronous test opened with `temporary_store`."""
    if inspect.iscoroutinefunction(getattr(request, "function", None)):
        request.getfixturevalue("_stores_closed_at_the_end")


@pytest.fixture
async def _stores_closed_at_the_end() -> AsyncIterator[None]:
    yield
    await close_temporary_stores()


@pytest.fixture(autouse=True)
def nothing_blocks() -> Iterator[None]:
    """A blocking call on the event loop, made from our code, fails the test."""
    with blockbuster_ctx(["agent", "gateway"]):
        yield


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    """One for all tests: to start it takes longer than most of them. Each has its own window, cookies and storage."""
    from tests.support.browser import at_chromium, chromium

    with chromium(tmp_path_factory.mktemp("chromium")) as address:
        async with at_chromium(address) as browser:
            yield browser
