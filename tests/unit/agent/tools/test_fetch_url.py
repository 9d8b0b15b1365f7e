"""fetch_url: a page as text, marked as what it is."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from agent.messages import ToolCall
from agent.tool import ToolContext
from agent.tool_support.safe_http import CheckedResolver, Fetcher
from agent.toolbox import Toolbox, ToolResult
from agent.tools.fetch_url import make_fetch_url
from agent.untrusted import wrap_untrusted
from tests.support.tool_conversation import Run
from tests.support.tool_site import open_site


async def fetch(ctx: ToolContext, **response: Any) -> ToolResult:
    async with open_site() as site:
        site.serve("/page", **response)
        toolbox = Toolbox([make_fetch_url(lambda: Fetcher(CheckedResolver(allow=["127.0.0.1/32"])))])
        result = await toolbox.run(
            ToolCall("call_1", "fetch_url", json.dumps({"url": site.url("/page")})), ctx
        )
    return replace(result, content=result.content.replace(f":{site.port}", ""))


async def test_a_page_becomes_text(ctx: ToolContext) -> None:
    """Readable, with absolute links; for the model, between marks."""
    html = "<title>News</title><h1>Today</h1><p>All is <a href='/well'>well</a>.</p><script>no()</script>"
    result = await fetch(ctx, text=html, content_type="text/html")
    assert result.ok
    assert result.content == (
        "http://127.0.0.1/page (HTTP 200, text/html)\n"
        "News\n\n# Today\n\nAll is [well](http://127.0.0.1/well)."
    )
    assert result.as_read == wrap_untrusted(result.content)


async def test_an_error_page_is_shown_with_its_status(ctx: ToolContext) -> None:
    """A 404 is information too."""
    result = await fetch(ctx, status=404, text="no such page")
    assert "(HTTP 404, text/plain)" in result.content
    assert "no such page" in result.content


async def test_data_is_left_as_it_is(ctx: ToolContext) -> None:
    """JSON is not HTML."""
    result = await fetch(ctx, text='{"a": "<b>"}', content_type="application/json")
    assert '{"a": "<b>"}' in result.content


async def test_a_page_cut_short_says_so(ctx: ToolContext) -> None:
    """The model knows that there was more."""
    result = await fetch(ctx, text="x" * 2_000_001)
    assert "(HTTP 200, text/plain, only its beginning)" in result.content


async def test_as_it_ships_it_refuses_loopback(run: Run) -> None:
    """The tool as discovered has nothing on its allow-list."""
    result = await run("fetch_url", url="http://127.0.0.1:9/")
    assert not result.ok
    assert "127.0.0.1 is not on the public internet" in result.content
