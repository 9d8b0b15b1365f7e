"""Any body, at every address that takes one: an answer that says what is wrong, and never an error of the server's."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.fuzz_values import anything, spoilt, texts, tries
from tests.support.web_harness import WebHarness, web_harness

pytestmark = pytest.mark.asyncio(loop_scope="module")

OPENED: dict[str, Any] = {"platform": "web", "chat_id": "desk"}
SENT: dict[str, Any] = {"text": "/status", "key": "k1"}
DECIDED: dict[str, Any] = {"choice": "once"}
KNOWN = "<the conversation>"

bodies = st.one_of(
    st.sampled_from([OPENED, SENT, DECIDED]).flatmap(spoilt).map(lambda tree: json.dumps(tree).encode()),
    anything.map(lambda tree: json.dumps(tree).encode()),
    st.binary(max_size=30),
    st.sampled_from(
        [b"[" * 100_000, b'{"text": NaN}', b"\xff\xfe{}", b'{"text": "' + b"x" * 200_000 + b'"}']
    ),
)
paths = st.one_of(
    st.just("/api/conversations"),
    st.tuples(
        st.sampled_from([KNOWN, "conv_0", "%00", "..", "%F0%9F%98%80"]),
        st.sampled_from(["messages", "stop", "approvals/abc", "approvals/%00", "messages?limit=1"]),
    ).map(lambda parts: "/api/conversations/{}/{}".format(*parts)),
)
queries = st.dictionaries(
    st.sampled_from(["limit", "after", "q"]), texts.map(lambda text: text.encode("utf-8", "replace").decode())
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WebHarness]:
    async with web_harness(tmp_path_factory.mktemp("web")) as harness:
        yield harness


@given(path=paths, body=bodies)
@example("/api/conversations", json.dumps(OPENED).encode())
@example("/api/conversations", b'{"platform": ["web"]}')
@tries(100)
async def test_any_body(harness: WebHarness, path: str, body: bytes) -> None:
    """Refused with a sentence, or taken."""
    conversation = await harness.open()
    url = harness.url + path.replace(KNOWN, conversation.id)
    headers = {"Content-Type": "application/json"}
    async with harness.http.post(url, data=body, headers=headers) as response:
        assert response.status in (200, 202, 400, 404, 413), await response.text()
        answer = await response.json()
        assert response.status < 400 or answer["error"].strip()


@given(query=queries)
@tries(40)
async def test_any_query(harness: WebHarness, query: dict[str, str]) -> None:
    """The same for the query string."""
    conversation = await harness.open()
    status, answer = await harness.get(f"/api/conversations/{conversation.id}/messages", params=query)
    assert status in (200, 400), answer
