"""The routes of the model client, and the one thing it may do on the event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx

from tests.fakes.anthropic.server import FakeAnthropic
from tests.fakes.openai.server import FakeOpenAI
from tests.support.model_routes import Route, open_route

LITELLM_LOOKS_AT_EVERY_ATTRIBUTE = "ignore:Accessing the 'model_:pydantic.warnings.PydanticDeprecatedSince211"
"""Of a chunk, to see whether it is empty; pydantic warns about two of them. Nothing we can change."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(LITELLM_LOOKS_AT_EVERY_ATTRIBUTE))


@pytest.fixture(params=[FakeOpenAI, FakeAnthropic], ids=["openai", "anthropic"])
async def route(request: pytest.FixtureRequest) -> AsyncIterator[Route]:
    """A client and the server it talks to, once per route."""
    async with open_route(request.param) as route:
        yield route


@pytest.fixture(autouse=True)
def nothing_blocks() -> Iterator[None]:
    """As everywhere, but litellm may ask whether `$SSL_CERT_FILE` exists when it opens a connection pool."""
    with blockbuster_ctx(["agent", "gateway"]) as blockbuster:
        may_stat = ("get_ssl_verify", "get_ssl_configuration")
        blockbuster.functions["os.stat"].can_block_in("custom_httpx/http_handler.py", may_stat)
        yield
