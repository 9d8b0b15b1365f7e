"""Run the code on the pages: shell in one installation, YAML as a configuration, Python by the compiler.

`pytest tests/docs/test_blocks.py --collect-only -q` lists the blocks. A block that cannot be run says why in a comment
before it, `<!-- not run: ... -->`, and is only parsed. Each page in FOLLOWED has a separate test that follows it from
top to bottom.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from gateway.access import Pairing
from gateway.config.loader import load
from gateway.store.sqlite.store import SqliteStore
from gateway.types import Author
from tests.fakes.openai.server import FakeOpenAI
from tests.support.docs_pages import PAGES, ROOT, TODAY, Block, blocks, name_of
from tests.support.docs_shell import (
    PROGRAMS,
    assignments,
    calls_hermes,
    is_plain,
    is_shell,
    lines,
    programs,
    refusal,
)
from tests.support.hermes_process import HermesProcess, environment
from tests.support.warm import HERMES, run

FOLLOWED = {
    "docs/cli.md": "tests/unit/gateway/cli/test_documentation.py",
    "docs/context-engines.md": "tests/unit/gateway/plugins/test_docs.py",
}
SHELL = [
    block for page in TODAY if name_of(page) not in FOLLOWED for block in blocks(page) if is_shell(block)
]
LANGUAGES = {"", "sh", "text", "yaml", "json", "python", "ini"}
OTHER_PROGRAMS = {"scrape_configs", "groups"}
"""Keys of files that are not ours: Prometheus."""
NOT_OURS = ("make",)
"""Programs whose lines are not run here. The Makefile is the way to these tests."""
NEVER_RUN = ("service", "-f", "--follow")
"""Arguments that change the machine outside the installation or never end: a page must mark them as not run."""
EXIT_CODES = {"status": 3}
"""`hermes status` finds no running gateway."""


@dataclass
class Installation:
    """A state directory in which something was said already, and a model on loopback."""

    folder: Path
    config: dict[str, object]
    numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def hermes(self, arguments: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
        return run([*HERMES, *arguments], env=environment(self.home, **variables))

    def stand_in(self, word: str) -> str:
        """What a reader would put in the place of a word on the page."""
        if word == "CODE":
            return asyncio.run(self._new_code())
        if word == "FILE":
            return str(self.folder / "backup.tar.gz")
        if word.startswith("/mnt/"):
            (disk := self.folder / f"disk{next(self.numbers)}").mkdir()
            return str(disk)
        if word.startswith("/tmp/"):
            return str(self.folder / Path(word).name)
        return word

    async def _new_code(self) -> str:
        store = await SqliteStore.open(self.home / "state.db")
        try:
            code = await Pairing(store.access).request(
                "telegram", Author(str(1000 + next(self.numbers)), "Ada")
            )
            assert code
            return code.code
        finally:
            await store.close()


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("household")
    with FakeOpenAI().in_thread() as model:
        where = {"name": "openai/test-model", "base_url": model.base_url, "api_key": model.api_key}
        config = {"model": {**where, "context_length": 100_000}, "platforms": {"web": {"port": 0}}}
        installed = Installation(folder, config)
        installed.home.mkdir(mode=0o700)
        (installed.home / "hermes.yaml").write_text(yaml.safe_dump(config))
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            said = installed.hermes(["chat", "-q", "Is there a flight booking?"])
            assert said.returncode == 0, said.stderr
            kept = installed.hermes(["backup", str(folder / "backup.tar.gz")])
            assert kept.returncode == 0, kept.stderr
        yield installed


@pytest.mark.parametrize(
    "block", [block for block in SHELL if not block.not_run], ids=lambda each: each.where
)
def test_shell(block: Block, installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line succeeds, in order, in the installation that all pages share."""
    monkeypatch.chdir(installation.folder)
    for line in lines(block):
        for program, *arguments in programs(line):
            if program in PROGRAMS:
                assert refusal(arguments, whole=True) == "", line
                assert not set(arguments) & set(NEVER_RUN), f"{line}: is never run; say so in a comment"
        if calls_hermes(line):
            _carry_out(line, installation)
        else:
            assert line.split()[0] in NOT_OURS, f"{line}: cannot be run; say why in a comment"


def _carry_out(line: str, installation: Installation) -> None:
    if not is_plain(line):
        _in_a_shell(line, installation)
        return
    ((_, *arguments),) = programs(line)
    if arguments == ["run"]:
        asyncio.run(_start_and_stop(installation))
        return
    # Two backups of one second would have one name, and no reader types so fast.
    shutil.rmtree(installation.home / "backups", ignore_errors=True)
    variables = {name: installation.stand_in(value) for name, value in assignments(line).items()}
    done = installation.hermes([installation.stand_in(word) for word in arguments], **variables)
    assert done.returncode == EXIT_CODES.get(arguments[0], 0), f"{line}\n{done.stdout}\n{done.stderr}"


def _in_a_shell(line: str, installation: Installation) -> None:
    """A pipe wants a real one; `hermes` in it is a new interpreter."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", line],
        env=environment(installation.home, PATH=path),
        cwd=installation.folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, f"{line}\n{ran.stderr}"


async def _start_and_stop(installation: Installation) -> None:
    gateway = HermesProcess(installation.home, dict(installation.config))
    await gateway.start()
    assert await gateway.stop(signal.SIGTERM) == 0


@pytest.mark.parametrize("block", [block for block in SHELL if block.not_run], ids=lambda each: each.where)
def test_shell_that_is_not_run(block: Block) -> None:
    """`hermes` would take every line of it, and a reason is given."""
    assert re.search(r"\w+ \w+", block.not_run)
    for line in lines(block):
        for program, *arguments in programs(line):
            if program in PROGRAMS:
                assert refusal(arguments, whole=True) == "", line


def test_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each YAML block that belongs to no other program is a valid `hermes.yaml` once its variables are set."""
    problems = {}
    for block in (block for page in PAGES for block in blocks(page) if block.language == "yaml"):
        named = re.match(r"# (\S+)\n", block.text)
        if (named and not named[1].endswith("hermes.yaml")) or yaml.safe_load(
            block.text
        ).keys() <= OTHER_PROGRAMS:
            continue
        for name in re.findall(r"\$\{(\w+)", block.text):
            monkeypatch.setenv(name, f"{name.lower()}_0123456789")
        file = tmp_path / "hermes.yaml"
        file.write_text(block.text)
        try:
            load(file)
        except Exception as error:
            problems[block.where] = str(error)
    assert problems == {}


def test_python_and_json() -> None:
    """They can be read. Whether the code works is said by the test of its page."""
    for block in (block for page in PAGES for block in blocks(page)):
        if block.language == "python":
            compile(block.text, block.where, "exec")
        elif block.language == "json":
            json.loads(block.text)


def test_every_block_says_what_it_is() -> None:
    """In a language that is tried here; `text` is for what is shown. The quick start is read in five minutes."""
    strange = [block.where for page in PAGES for block in blocks(page) if block.language not in LANGUAGES]
    assert strange == []
    assert [page for page, test in FOLLOWED.items() if (ROOT / page).exists() != (ROOT / test).exists()] == []
    assert len((ROOT / "docs" / "quick-start.md").read_text().split()) < 5 * 200
    assert len([block for block in SHELL if not block.not_run]) > 10
