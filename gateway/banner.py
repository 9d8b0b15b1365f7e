"""The lines that `hermes run` prints at its start and at its stop."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap

from agent.tools.terminal import terminal
from gateway.config.loader import LoadedConfig
from gateway.config.schema import Config
from gateway.platforms.base import Platform
from gateway.platforms.registry import PlatformRegistry
from gateway.plugins.engines import BUILT_IN
from gateway.plugins.loader import Plugins

_LABEL_WIDTH = 10
_MIN_WIDTH = 40


def program() -> str:
    """Return the command as the person typed it: `hermes` may not be on their PATH."""
    return sys.argv[0] if Path(sys.argv[0]).name == "hermes" else "hermes"


def _label(platform: Platform, registry: PlatformRegistry) -> str:
    _, slash, bot = platform.name.partition("/")
    return f"{registry[platform.name].title}{slash}{bot} ".ljust(_LABEL_WIDTH)


def _state(platform: Platform) -> str:
    if platform.health.state == "up":
        return platform.where
    yet = "" if platform.health.state == "refused" else " yet"
    return f"not connected{yet}. {platform.health.detail}".rstrip()


def _warnings(config: Config) -> Iterator[str]:
    """Remind the owner of dangerous settings."""
    if not any(terminal.name in names for names in (config.tools.enabled, *config.tools.platforms.values())):
        return
    if config.tools.sandbox.mode == "off":
        yield "the agent runs commands without a sandbox (tools.sandbox.mode: off)"
    if config.tools.approval == "off":
        yield "the agent runs commands without asking (tools.approval: off)"


def _engine(config: Config, plugins: Plugins) -> str:
    if plugins.unusable_engine:
        return f"{BUILT_IN} instead of `{plugins.unusable_engine}`"
    return config.context.engine


def shutdown_line(answering: int, seconds: float) -> str:
    answers = "One answer gets" if answering == 1 else f"{answering} answers get"
    return (
        f"Stopping. {answers} up to {seconds:g} s to finish; the rest continues at the next start. "
        "Ctrl-C again stops at once."
    )


def startup_lines(
    loaded: LoadedConfig,
    platforms: Sequence[Platform],
    registry: PlatformRegistry,
    *,
    model: Sequence[str],
    traces: str,
    plugins: Plugins,
) -> list[str]:
    """Describe the running gateway. `model` holds the lines about the model; empty ones are left out."""
    on = [f"{_label(platform, registry)}{_state(platform)}" for platform in platforms]
    running = {registry[platform.name].name for platform in platforms}
    off = [
        f"{spec.title:<{_LABEL_WIDTH}}off; `{program()} setup --only {spec.name}` connects a bot"
        for spec in registry.bots
        if spec.name not in running
    ]
    page = next((platform.where for platform in platforms if platform.name == "web"), "")
    lines = [
        *on,
        *off,
        *([f"Dashboard {page}/dashboard"] if page else []),
        *(
            f"{'' if number else 'Model':<{_LABEL_WIDTH}}{line}"
            for number, line in enumerate(filter(None, model))
        ),
        f"Context   {_engine(loaded.config, plugins)}",
        f"Store     {loaded.database}",
        f"Settings  {loaded.source}" + ("" if loaded.path else f"; `{program()} setup` writes a hermes.yaml"),
        f"Terminal  {program()} chat",
        *([f"Traces    {traces}"] if traces else []),
        *(f"Warning   {sentence}" for sentence in (*_warnings(loaded.config), *plugins.notices)),
    ]
    return [
        *(part for line in lines for part in _wrapped(line)),
        "Ctrl-C stops Hermes; conversations continue at the next start.",
    ]


def _wrapped(line: str) -> list[str]:
    """Wrap the text after the label at a terminal, without breaking addresses and paths."""
    if not sys.stdout.isatty():
        return [line]
    width = max(_MIN_WIDTH, get_terminal_size().columns) - _LABEL_WIDTH
    text = wrap(line[_LABEL_WIDTH:], width, break_long_words=False, break_on_hyphens=False)
    indent = " " * _LABEL_WIDTH
    return [line[:_LABEL_WIDTH] + text[0], *(indent + each for each in text[1:])] if text else [line]
