"""Every command, event, hook and variable is documented, and nothing is documented that does not exist.

Settings: `docs/configuration.md` is made from the schema, see tests/unit/gateway/config/test_documentation.py.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import get_args

from agent.context_compressor import ContextCompressor
from agent.events import TurnEvent
from agent.llm import Usage
from gateway.commands import Commands
from gateway.config.environment import PROVIDER_KEYS
from gateway.config.schema_platforms import token_variables
from gateway.config.validate import keys, sections
from gateway.plugins.engines import available_engines, engine_factory
from gateway.plugins.hooks import EVENTS
from gateway.plugins.loader import Plugins
from tests.support.docs_pages import ROOT, TODAY, blocks, name_of, spans, tables
from tests.support.docs_shell import alternatives, is_shell, leaf_commands, lines, programs, refusal

EVENTS_PAGE = ROOT / "docs" / "events-and-hooks.md"
VARIABLES_PAGE = ROOT / "docs" / "operations.md"
SOURCES = [path for room in ("agent", "gateway", "plugins") for path in (ROOT / room).rglob("*.py")]

OTHER_SLASHES = {
    *("/newbot", "/setprivacy", "/setjoingroups", "/revoke", "/token"),  # said to BotFather
    "/rest",  # the slip of the finger
    "/workspace",  # a folder in the sandbox
    "/data",  # the volume of the container
}
SET_BY_OTHERS = {"HTTPS_PROXY"}
FILES = {".db", ".gz", ".json", ".lock", ".log", ".md", ".png", ".py", ".sql", ".svg", ".toml", ".yaml"}


def on_pages(complaints: Callable[[Path], Iterable[str]]) -> dict[str, list[str]]:
    """What is wrong where."""
    found = {name_of(page): sorted(set(complaints(page))) for page in TODAY}
    return {page: wrong for page, wrong in found.items() if wrong}


def test_every_command_of_the_terminal_is_documented() -> None:
    """Somewhere on a page, as it is typed."""
    typed = [f"{' '.join(command)} " for page in TODAY for command in _typed(page)]
    assert [name for name in leaf_commands() if not any(text.startswith(f"{name} ") for text in typed)] == []


def test_commands_of_the_terminal_exist() -> None:
    """With the options they are shown with."""

    def wrong(page: Path) -> Iterator[str]:
        for _, *arguments in _typed(page):
            if why := refusal(arguments, whole=False):
                yield f"hermes {' '.join(arguments)}: {why}"

    assert on_pages(wrong) == {}


def test_every_slash_command_is_documented() -> None:
    """By a heading in commands.md, or on the page of its engine; and no heading is left over."""
    page = (ROOT / "docs/commands.md").read_text()
    headings = set(re.findall(r"`/([\w-]+)", "".join(re.findall(r"^## .*$", page, re.MULTILINE))))
    of_engines = set(re.findall(r"^- `/([\w-]+)", (ROOT / "docs/lcm.md").read_text(), re.MULTILINE))
    assert slash_commands() - headings - of_engines == set()
    assert headings - slash_commands() == set()


def test_slash_commands_exist() -> None:
    """What begins with a slash is a command, an address of the web server or a folder."""
    names = slash_commands() | {name.replace("-", "_") for name in slash_commands()}
    routes = {found[0] for text in constants() if (found := re.match(r"/[a-z][\w-]*", text))}
    known = {f"/{name}" for name in names} | routes | OTHER_SLASHES

    def wrong(page: Path) -> Iterator[str]:
        for text in spans(page):
            found = re.match(r"/[a-z][\w-]*(?=$|[ /@:])", text)
            if found and found[0] not in known and not Path(found[0]).exists():
                yield text

    assert on_pages(wrong) == {}


def test_settings_and_log_lines_exist() -> None:
    """A name with a dot is a setting, a module or a line of the log."""
    settings = {key.name for key in keys()}
    open_ended = tuple(f"{key.name}." for key in keys() if key.expected == "a mapping")
    settings |= {name.rpartition(".")[0] for name in settings}
    told = {text for text in constants() if re.fullmatch(r"[a-z_]+\.[a-z_]+", text)}
    first = {name.partition(".")[0] for name in settings | told} | {name for name, _ in sections()}

    def wrong(page: Path) -> Iterator[str]:
        for text in spans(page):
            name = text.partition(":")[0]
            if not re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", name) or name.partition(".")[0] not in first:
                continue
            if name.startswith((*open_ended, "platforms.acme")):
                continue  # a plugin's platform has the keys that the plugin declares
            if not (name in settings | told or FILES & set(Path(name).suffixes) or _is_in_a_module(name)):
                yield name

    assert on_pages(wrong) == {}


def test_every_turn_event_is_documented() -> None:
    """With each of its fields, in their order, and no other."""
    documented = {name: told for name, told in _rows(EVENTS_PAGE) if name[0].isupper()}
    assert documented == {
        event.__name__: [each.name for each in fields(event)] for event in get_args(TurnEvent)
    }
    page = EVENTS_PAGE.read_text()
    assert [each.name for each in fields(Usage) if f"`{each.name}`" not in page] == []


def test_every_hook_is_documented() -> None:
    """With what a callback may take by name."""
    documented = {name: tuple(told) for name, told in _rows(EVENTS_PAGE) if name[0].islower()}
    assert documented == dict(EVENTS)


def test_every_variable_is_documented() -> None:
    """A page lists the variables of Hermes, CONTRIBUTING.md those of the tests; no listed variable is unused."""
    shown = {name for page in TODAY for name in re.findall(r"\b[A-Z][A-Z0-9_]+\b", page.read_text())}
    assert variables_of_hermes() - shown == set()
    first_cells = (first for rows in tables(VARIABLES_PAGE) for first, *_ in rows)
    table = {name for first in first_cells for name in re.findall(r"`([A-Z][A-Z0-9]*_[A-Z0-9_]+)`", first)}
    assert table - variables_of_hermes() == SET_BY_OTHERS
    contributing = set(spans(ROOT / "CONTRIBUTING.md"))
    assert {name for name in variables_of_tests() if not any(name in text for text in contributing)} == set()


def test_variables_of_hermes_exist() -> None:
    """Every documented `HERMES_` variable is read by the source."""
    known = variables_of_hermes() | variables_of_tests()
    assert on_pages(lambda page: set(re.findall(r"\bHERMES_[A-Z_]+\b", page.read_text())) - known) == {}


def test_every_room_is_named() -> None:
    """CONTRIBUTING.md describes every folder."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    rooms = [path for path in [*ROOT.glob("gateway/*/"), *ROOT.glob("agent/*/")] if any(path.glob("*.py"))]
    assert len(rooms) > 10
    assert [
        path for path in rooms if f"`{name_of(path)}/`" not in page and f"`{path.name}/`" not in page
    ] == []


def test_targets_of_make_exist() -> None:
    """The pages, and `make help`, name what the Makefile has, and `make help` names all of it."""
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))

    def called(page: Path) -> set[str]:
        shell = (line for block in blocks(page) if block.language in ("", "sh") for line in lines(block))
        return {found[1] for text in [*spans(page), *shell] if (found := re.match(r"make ([a-z-]+)", text))}

    assert on_pages(lambda page: called(page) - targets) == {}
    helped = set(re.findall(r"make ([a-z-]+)", "".join(re.findall(r"@echo (.*)", makefile))))
    assert (helped - targets, targets - helped - {"help", "pytest", "browser", "sandbox", "postgres"}) == (
        set(),
        set(),
    )


@cache
def slash_commands() -> frozenset[str]:
    """Of Hermes itself and of the engines that come with it."""
    plugins, nowhere = Plugins(), ROOT / "nowhere"
    for name in {engine.name for engine in available_engines(nowhere, plugins, active="compressor")}:
        engine_factory(
            name,
            home=nowhere,
            plugins=plugins,
            compressor=lambda: ContextCompressor(8_000),
            context_length=8_000,
        )
    return frozenset(command.name for command in Commands.discover(plugins.commands).menu)


@cache
def constants() -> frozenset[str]:
    """Every text in the code."""
    return frozenset(text for path in SOURCES for text in _texts(path))


@cache
def variables_of_hermes() -> frozenset[str]:
    """Only gateway/config reads the environment; gateway/observability names the variables of OpenTelemetry."""
    texts = {
        text
        for path in SOURCES
        if {"config", "observability"} & set(path.relative_to(ROOT).parts)
        for text in _texts(path)
    }
    read = {text for text in texts if re.fullmatch(r"(HERMES|OTEL)(_[A-Z]+)+", text)}
    named = {
        name
        for file in ("hermes.yaml", "compose.yaml")
        for name in re.findall(r"\$\{([A-Z_]+)[:}]", (ROOT / file).read_text())
    }
    return frozenset({*read, *named, *PROVIDER_KEYS, *token_variables().values()} - {"NAME"})


@cache
def variables_of_tests() -> frozenset[str]:
    """`os.environ.get("HERMES_FUZZ")`, as text."""
    files = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "bench").rglob("*.py")]
    read = re.compile(r"os\.environ(?:\.get\(|\[)\"(HERMES_\w+)\"")
    return (
        frozenset(name for path in files for name in read.findall(path.read_text())) - variables_of_hermes()
    )


def _typed(page: Path) -> Iterator[list[str]]:
    """Every call of `hermes` on the page, in a line or in a block."""
    in_blocks = (line for block in blocks(page) if is_shell(block) for line in lines(block))
    for text in [*spans(page), *in_blocks]:
        for line in alternatives(text.partition("...")[0]):
            if re.match(r"(.*[|=] ?\S* ?)?(\.venv/bin/)?hermes( |$)", line):
                yield from (["hermes", *rest] for name, *rest in programs(line) if name.endswith("hermes"))


def _rows(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Of tables with three columns: what the first names, and the names in the last."""
    for name, *_, told in (row for rows in tables(page) for row in rows if len(row) == 3):
        yield name.strip("`"), re.findall(r"`(\w+)`", told)


def _texts(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _is_in_a_module(name: str) -> bool:
    """`agent.tokens`, or something in it."""
    parent, rest = name, ""
    while "." in parent and _spec(parent) is None:
        parent, _, rest = parent.rpartition(".")
    return "." in parent and (not rest or hasattr(importlib.import_module(parent), rest))


def _spec(name: str) -> object:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None
