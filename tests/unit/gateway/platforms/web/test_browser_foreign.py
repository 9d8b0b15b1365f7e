"""What the page of another site can do to Hermes from within the owner's browser: nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from aiohttp import web
from playwright.async_api import Browser

from tests.support.browser import (
    IN_A_BROWSER,
    Tab,
    browser_harness,  # noqa: F401 - a fixture
)
from tests.support.web_harness import WebHarness

pytestmark = IN_A_BROWSER

_TRIES = """async (hermes) => {
  const outcome = (promise) => promise.then(() => "done", () => "refused");
  const loaded = (tag, attribute, path) => new Promise((resolve, reject) => {
    const element = document.createElement(tag);
    element.onload = resolve; element.onerror = reject;
    element[attribute] = hermes + path;
    document.body.append(element);
  });
  const post = (type, mode) => fetch(hermes + "/api/conversations", {
    method: "POST", mode, credentials: "include", headers: {"Content-Type": type},
    body: JSON.stringify({platform: "web", chat_id: "forged"}),
  });
  const form = document.createElement("form");
  form.method = "post"; form.enctype = "text/plain"; form.target = "sink";
  form.action = hermes + "/api/conversations";
  const field = document.createElement("input");
  field.name = '{"platform": "web", "chat_id": "forged", "x": "'; field.value = '"}';
  const sink = document.createElement("iframe");
  sink.name = "sink";
  form.append(field);
  document.body.append(sink, form);
  const answered = new Promise((resolve) => { sink.onload = resolve; });
  form.submit();
  await answered;
  return {
    json: await outcome(post("application/json", "cors")),
    simple: await outcome(post("text/plain", "no-cors")),
    read: await outcome(fetch(hermes + "/api/conversations").then((answer) => answer.text())),
    script: await outcome(loaded("script", "src", "/static/chat.js")),
    image: await outcome(loaded("img", "src", "/static/icon.svg")),
    stream: await new Promise((resolve) => {
      const stream = new EventSource(hermes + "/c/any/live");
      stream.onerror = () => { stream.close(); resolve("refused"); };
      stream.onopen = () => resolve("done");
    }),
  };
}"""


@pytest_asyncio.fixture(loop_scope="session")
async def foreign() -> AsyncIterator[str]:
    """A site of somebody else. To a browser, `localhost` and `127.0.0.1` are as foreign to each other as any two."""

    async def page(request: web.Request) -> web.Response:
        return web.Response(text="<!doctype html><body>Win a prize!</body>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/", page)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://localhost:{runner.addresses[0][1]}/"
    await runner.cleanup()


async def test_a_foreign_page_gets_nowhere(browser: Browser, harness: WebHarness, foreign: str) -> None:
    """It sends nothing that counts, reads nothing, and does not even learn that Hermes is there."""
    async with Tab.visiting(browser, foreign) as tab:
        tried = await tab.page.evaluate(_TRIES, harness.url)
    assert set(tried.values()) == {"refused"}, tried
    # What is sent without permission arrives all the same; it must have done nothing.
    assert await harness.store.sessions.conversations() == []
