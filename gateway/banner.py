"""What a person reads at the start of `hermes run`, and at its end."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap

from agent.tools.terminal import terminal
from gateway.config.loader import Loaded
from gateway.config.schema import Config
from gateway.config.schema_platforms import TOKEN_VARIABLES
from gateway.platforms.base import Platform
from gateway.plugins import Plugins
from gateway.plugins.engines import BUILT_IN

_LABEL = 10
"""Characters before what a line says."""
_NARROWEST = 40


def program() -> str:
    """As it was called, so that a person can type it: `hermes` may not be on their PATH."""
    return sys.argv[0] if Path(sys.argv[0]).name == "hermes" else "hermes"


def _state(platform: Platform) -> str:
    if platform.health.state == "up":
        return platform.where
    yet = "" if platform.health.state == "refused" else " yet"
    return f"not connected{yet}. {platform.health.detail}".rstrip()


def _warnings(config: Config) -> Iterator[str]:
    """What an owner has allowed and should be reminded of."""
    if not any(terminal.name in names for names in (config.tools.enabled, *config.tools.platforms.values())):
        return
    if config.tools.sandbox.mode == "off":
        yield "commands of the agent run without a sandbox (tools.sandbox.mode: off)"
    if config.tools.approval == "off":
        yield "commands of the agent run without anybody being asked (tools.approval: off)"


def _engine(config: Config, plugins: Plugins) -> str:
    if plugins.unusable_engine:
        return f"{BUILT_IN}, in place of `{plugins.unusable_engine}`"
    return config.context.engine


def shutdown_line(answering: int, seconds: float) -> str:
    answers = "One answer gets" if answering == 1 else f"{answering} answers get"
    return (
        f"Stopping. {answers} up to {seconds:g} s to end; what is left goes on at the next start. "
        "Ctrl-C again stops at once."
    )


def startup_lines(
    loaded: Loaded, platforms: Sequence[Platform], *, model: Sequence[str], traces: str, plugins: Plugins
) -> list[str]:
    """`model` says which one answers, and what else a person should know about it."""
    on = [f"{platform.name.capitalize():<10}{_state(platform)}" for platform in platforms]
    off = [
        f"{service.capitalize():<10}off; `{program()} setup --only {service}` connects a bot"
        for service in TOKEN_VARIABLES
        if not any(platform.name.partition("/")[0] == service for platform in platforms)
    ]
    page = next((platform.where for platform in platforms if platform.name == "web"), "")
    lines = [
        *on,
        *off,
        *([f"Dashboard {page}/dashboard"] if page else []),
        *(f"{'' if number else 'Model':<10}{line}" for number, line in enumerate(filter(None, model))),
        f"Context   {_engine(loaded.config, plugins)}",
        f"Store     {loaded.database}",
        f"Settings  {loaded.source}" + ("" if loaded.path else f"; `{program()} setup` writes a hermes.yaml"),
        f"Terminal  {program()} chat",
        *([f"Traces    {traces}"] if traces else []),
        *(f"Warning   {sentence}" for sentence in (*_warnings(loaded.config), *plugins.notices)),
    ]
    return [
        *(part for line in lines for part in _wrapped(line)),
        "Ctrl-C stops Hermes; conversations go on at the next start.",
    ]


def _wrapped(line: str) -> list[str]:
    """At a terminal, beneath itself. Elsewhere a line is a line; addresses and paths stay whole everywhere."""
    if not sys.stdout.isatty():
        return [line]
    # Below that, what is wrapped would be a word a line.
    width = max(_NARROWEST, get_terminal_size().columns)
    beneath = " " * _LABEL
    rest = wrap(line[_LABEL:], width - _LABEL, break_long_words=False, break_on_hyphens=False)
    return [line[:_LABEL] + rest[0], *(beneath + each for each in rest[1:])] if rest else [line]
