"""The token of a bot, and every other secret of an installation, in log lines and tracebacks."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import get_args
from urllib.parse import quote

import httpx
import pytest
import structlog
from aiohttp import web

from agent.redaction import REDACTED, keeping_secret, own_rules, redact
from gateway.app import build_app
from gateway.config.loader import LoadedConfig, load
from gateway.config.secrets import all_secrets
from tests.support.log_lines import Style, logging_as_configured

TOKEN = "7000000001:AAHermes-fake_token-of-the-tests_0"
SECRET_PART = "AAHermes-fake_token-of-the-tests_0"
DISCORD = "MTE3MDAwMDAwMDAwMDAwMDAx.Fake00.this-is-a-fake-token-of-tests-1"
UNLIKE_A_KEY = "open sesame / please"

styles = pytest.mark.parametrize("style", get_args(Style))
levels = pytest.mark.parametrize("level", ["info", "debug"])


@pytest.fixture(autouse=True)
def nothing_blocks() -> None:
    """A traceback reads source files, and Hermes reads some before it serves requests."""


@pytest.fixture
def loud_libraries() -> Iterator[None]:
    levels = {name: logging.getLogger(name).level for name in ("httpx", "httpcore")}
    for name in levels:
        logging.getLogger(name).setLevel(logging.DEBUG)
    yield
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


@pytest.fixture
async def bot_api() -> AsyncIterator[str]:
    """A server that knows no bot; its address."""

    async def refuse(request: web.Request) -> web.Response:
        return web.Response(status=404, text=f"no {request.path}")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", refuse)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def _refused(address: str) -> httpx.HTTPStatusError:
    """As a library that knows the token would fail: the token is in the URL, and the URL in the exception."""
    async with httpx.AsyncClient() as client:
        response = await client.post(address)
    with pytest.raises(httpx.HTTPStatusError) as caught:
        response.raise_for_status()
    assert SECRET_PART in str(caught.value) or "sesame" in str(caught.value)
    return caught.value


def _log_everything_about(refusal: httpx.HTTPStatusError) -> None:
    log = structlog.get_logger("test")
    try:
        try:
            raise refusal
        except httpx.HTTPStatusError as error:
            raise RuntimeError(f"{TOKEN} was refused") from error
    except RuntimeError as error:
        log.error("platform.crashed", exc_info=error)
        logging.getLogger("library").exception("failed with %s", error)
    log.info("platform.address", url=f"http://x.test/file/bot{TOKEN}/photo.jpg", request=refusal.request)
    log.debug("platform.headers", headers={"Authorization": f"Bot {DISCORD}"}, seen=[("token", TOKEN)])


def _lines(output: str, style: Style) -> list[str]:
    if style == "json":
        for line in output.splitlines():
            json.loads(line)
    return output.splitlines()


@styles
@levels
@pytest.mark.usefixtures("loud_libraries")
async def test_a_token_in_an_address(
    bot_api: str, level: str, style: Style, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case 18: httpx writes the address of each request at INFO, and repeats it in its exceptions."""
    with logging_as_configured(level, style):
        refusal = await _refused(f"{bot_api}/bot{TOKEN}/getMe")
        _log_everything_about(refusal)
    output = capsys.readouterr().err
    lines = _lines(output, style)
    assert any("HTTP Request: POST" in line and REDACTED in line for line in lines)
    assert "platform.crashed" in output and "HTTPStatusError" in output and "failed with" in output
    assert ("platform.headers" in output) == (level == "debug")
    assert SECRET_PART not in output
    assert DISCORD.rpartition(".")[2] not in output


@styles
async def test_a_token_that_was_cut_off(style: Style, capsys: pytest.CaptureFixture[str]) -> None:
    """Case 18: half a token is redacted too."""
    with logging_as_configured("info", style):
        structlog.get_logger("test").info("platform.down", detail=f"POST https://x.test/bot{TOKEN[:25]}/send")
    assert TOKEN[11:20] not in capsys.readouterr().err


@styles
def test_secrets_that_look_like_nothing(style: Style, capsys: pytest.CaptureFixture[str]) -> None:
    """Case 18: what Hermes was given is known word for word, wherever and however it is written."""

    class Thing:
        def __repr__(self) -> str:
            return f"Thing({UNLIKE_A_KEY!r})"

    with logging_as_configured("info", style), keeping_secret([UNLIKE_A_KEY]):
        log = structlog.get_logger("test")
        log.info(f"said {UNLIKE_A_KEY}", value=UNLIKE_A_KEY, deep={"list": [{UNLIKE_A_KEY: (UNLIKE_A_KEY,)}]})
        log.info("object", thing=Thing(), raw=UNLIKE_A_KEY.encode())
        log.info(
            "address", url=f"https://example.org/?q={quote(UNLIKE_A_KEY)}", same=quote(UNLIKE_A_KEY, safe="")
        )
        logging.getLogger("library").warning("it is %r", {"password": UNLIKE_A_KEY})
        try:
            raise ValueError(UNLIKE_A_KEY)
        except ValueError:
            log.exception("broken")
            sys.excepthook(*sys.exc_info())
    output = capsys.readouterr().err
    assert "sesame" not in output
    assert output.count(REDACTED) >= 10
    assert "Traceback" in output, "a bug that ends the process keeps its traceback"


def test_the_last_words_of_a_thread(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 18: neither a thread that dies nor an object that fails when it is thrown away tells a secret."""

    def die() -> None:
        raise ValueError(UNLIKE_A_KEY)

    class Thing:
        def __del__(self) -> None:
            raise KeyError(UNLIKE_A_KEY)

    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    with logging_as_configured("info", "human"), keeping_secret([UNLIKE_A_KEY]):
        thread = threading.Thread(target=die, name="worker")
        thread.start()
        thread.join()
        Thing()
    output = capsys.readouterr().err
    assert "Exception in thread worker" in output and "in die" in output and "__del__" in output
    assert "sesame" not in output and output.count(REDACTED) >= 2


@styles
def test_ordinary_lines_are_left_alone(style: Style, capsys: pytest.CaptureFixture[str]) -> None:
    """Ids, paths, numbers and addresses are what a log is for."""
    facts = {
        "conversation_id": "conv_01h8abcdefghjkmnpqrstvwxyz",
        "commit": "e83c5163316f89bfbde7d9ab23ca2e25604af290",
        "request_id": "550e8400-e29b-41d4-a716-446655440000",
        "path": "/var/lib/hermes/state.db",
        "tokens": 123_456,
        "url": "https://example.org:8080/a/b?page=2",
    }
    with logging_as_configured("info", style):
        structlog.get_logger("test").info("turn.done", **facts)
    line = capsys.readouterr().err
    assert REDACTED not in line
    assert all(str(fact) in line for fact in facts.values())


CONFIGURATION = """\
model:
  name: openai/small
  base_url: http://127.0.0.1:11434/v1
  api_key: not-needed
  fallbacks:
    - name: openai/tiny
      api_key: ""
    - name: openai/large
      api_key: fallback-key-of-the-tests
platforms:
  web:
    enabled: false
    token: web-token-of-the-tests
  discord:
    enabled: false
    bots:
      work: {enabled: false, token: work-token-of-the-tests}
  telegram:
    enabled: false
"""


@pytest.fixture
def loaded(private_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LoadedConfig:
    """With secrets in the file, in the environment and in `.env`."""
    private_home.mkdir(mode=0o700)
    (private_home / ".env").write_text("GROQ_API_KEY=groq-key-of-the-tests\nHOST_NAME=example.org\n")
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", TOKEN)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/etc/google.json")
    monkeypatch.setenv("OPENAI_API_KEY", "anything")
    monkeypatch.setenv("AUTH_TOKEN", "disabled")
    file = tmp_path / "hermes.yaml"
    file.write_text(CONFIGURATION)
    return load(file)


async def test_every_secret_that_is_configured_is_known(loaded: LoadedConfig) -> None:
    """Case 18: for as long as Hermes runs."""
    known = {
        TOKEN,
        "fallback-key-of-the-tests",
        "web-token-of-the-tests",
        "work-token-of-the-tests",
        "groq-key-of-the-tests",
    }
    found = set(all_secrets(loaded))
    assert known <= found
    assert found.isdisjoint({"", "anything", "disabled", "not-needed", "example.org", "/etc/google.json"})
    said = " and ".join(sorted(known - {TOKEN}))
    async with build_app(loaded):
        assert redact(said, own_rules()) == " and ".join([REDACTED] * 4)
    assert redact(said, own_rules()) == said
