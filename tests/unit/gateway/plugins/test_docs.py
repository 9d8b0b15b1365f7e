"""Follows `docs/context-engines.md` step by step: writes the files, runs the commands and tests."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.context.engine_runner import DEADLINES
from agent.context_engine import ContextEngine
from gateway.config.loader import load
from gateway.plugins.hooks import EVENTS, TIME_LIMIT
from gateway.plugins.loader import load_plugins
from tests.support.foreign_plugins import make_engines
from tests.support.histories import chat
from tests.support.ordinary_user import hermes

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "context-engines.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# \$HERMES_HOME/(\S+)\n")
TEST = re.compile(r"# test_\w+\.py\n")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state directory after all steps of the page."""
    home = tmp_path_factory.mktemp("followed") / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HERMES_HOME", str(home))
        patch.chdir(home.parent)
        for language, text in BLOCKS:
            if named := FILE.match(text):
                path = home / named[1]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            elif language == "sh":
                _run_lines(text)
    return home


@pytest.fixture
def followed(finished: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMES_HOME", str(finished))
    monkeypatch.chdir(finished.parent)
    return finished


def _run_lines(commands: str) -> None:
    for line in commands.splitlines():
        program, *arguments = shlex.split(line)
        done = hermes(*arguments)
        assert (program, done.returncode) == ("hermes", 0), f"{line}\n{done.stderr}"


def unnamed(language: str) -> Iterator[str]:
    return (text for each, text in BLOCKS if each == language and not FILE.match(text))


def test_every_block_is_something_we_can_try() -> None:
    assert {language for language, _ in BLOCKS} == {"python", "yaml", "sh", "text"}
    assert all(TEST.match(text) for text in unnamed("python"))


def test_every_engine_on_the_page_works(followed: Path) -> None:
    listed = json.loads(hermes("plugins", "list", "--json").stdout)["context_engines"]
    names = {engine["name"] for engine in listed if not engine["problem"]}
    assert names >= {"compressor", "sliding_window", "newest_turns", "recall"}
    assert load().config.context.engine == "compressor"
    (engine,) = make_engines(followed, name="newest_turns", window=4_000)
    assert len(engine.compress(chat(50))) < 101


def test_settings_are_valid(followed: Path, tmp_path: Path) -> None:
    """The engine accepts the options."""
    seen = {}
    for number, text in enumerate(unnamed("yaml")):
        file = tmp_path / f"{number}.yaml"
        file.write_text(text)
        checked = hermes("--config", str(file), "config", "check")
        assert checked.returncode == 0, checked.stderr
        context = load(file).config.context
        seen[context.engine] = dict(context.options)
    assert seen == {"compressor": {}, "newest_turns": {"keep": 0.3}}


def test_an_option_on_the_page_is_refused_in_a_sentence(followed: Path, tmp_path: Path) -> None:
    (tmp_path / "hermes.yaml").write_text("context:\n  engine: newest_turns\n  options: {keep: 3}\n")
    refused = hermes("--config", str(tmp_path / "hermes.yaml"), "config", "check")
    assert refused.returncode == 2
    assert "hermes.yaml:3: newest_turns has one option, `keep`, a share between 0 and 1." in refused.stderr


def test_the_tests_on_the_page_pass(followed: Path) -> None:
    for text in unnamed("python"):
        file = followed / "test_from_the_page.py"
        file.write_text(text)
        ran = _pytest(str(file), "--rootdir", str(followed), "-p", "no:cacheprovider")
        assert ran.returncode == 0 and "2 passed" in ran.stdout, ran.stdout


def test_the_tool_of_an_engine_answers(followed: Path) -> None:
    (engine,) = make_engines(followed, name="recall", window=4_000)
    said = chat(60, words=50)
    kept = engine.compress(said)
    assert len(kept) < len(said)
    (schema,) = engine.get_tool_schemas()
    answer = json.loads(engine.handle_tool_call(schema["name"], {"words": "question 7:"}, messages=kept))
    assert [text[:11] for text in answer["found"]] == ["Question 7:"]
    assert answer["still_in_the_conversation"] == len(kept)
    assert "error" in json.loads(engine.handle_tool_call("other", {}))


def test_the_general_plugin_registers_everything(followed: Path) -> None:
    plugins = load_plugins(followed, ["office"])
    assert list(plugins.tools) == ["opening_hours"]
    assert [command.name for command in plugins.commands] == ["count"]
    one, other = make_engines(followed, 2, name="office", plugins=plugins)
    assert isinstance(one, ContextEngine) and one is not other
    assert one.context_length == 8_000


def test_every_event_is_in_the_table() -> None:
    rows = re.findall(r"^\| `(\w+_\w+)` \| ((?:`\w+`(?:, )?)+|none) \|$", PAGE, re.MULTILINE)
    assert {event: tuple(re.findall(r"`(\w+)`", data)) for event, data in rows} == dict(EVENTS)
    assert f"together have {TIME_LIMIT:g} seconds" in PAGE


def test_the_contract_suite_runs_over_engines_on_the_path(followed: Path) -> None:
    path = os.pathsep.join([str(followed), str(ROOT)])
    suite = str(ROOT / "tests" / "contract" / "engines" / "test_context_engine.py")
    ran = _pytest(suite, "-k", "newest_turns or recall", "-p", "no:cacheprovider", PYTHONPATH=path)
    assert ran.returncode == 0, ran.stdout
    assert "[newest_turns]" in ran.stdout and "[recall]" in ran.stdout


def _pytest(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-v", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_the_deadlines_in_the_docs_are_those_in_the_code() -> None:
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| (\d+)\b", PAGE, re.MULTILINE)
    told = {name: float(seconds) for names, seconds in rows for name in re.findall(r"\w+", names)}
    assert told == DEADLINES
