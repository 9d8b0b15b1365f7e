"""`hermes plugins`: lists, enables and disables plugins, and chooses the context engine."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli import Options, load_config
from gateway.cli.output import as_json_flag, console, one_line, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from gateway.config.loader import LoadedConfig
    from gateway.plugins.engines import EngineInfo
    from gateway.plugins.loader import PluginInfo

_RESTART = "Restart Hermes to apply the change."


@dataclass(frozen=True, slots=True)
class Overview:
    """All plugins and context engines."""

    loaded: LoadedConfig
    general: list[PluginInfo]
    engines: list[EngineInfo]

    @property
    def active_engine(self) -> str:
        return self.loaded.config.context.engine


@click.group(invoke_without_command=True)
@click.pass_context
def plugins(ctx: click.Context) -> None:
    """List, enable and disable plugins, choose the context engine.

    At a terminal and without a command, it asks for the context engine to use.
    """
    if ctx.invoked_subcommand is not None:
        return
    overview = _survey(ctx.obj)
    _print(overview)
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        return
    names, active = [info.name for info in overview.engines if not info.problem], overview.active_engine
    default = active if active in names else None
    chosen = click.prompt("Context engine to use", type=click.Choice(names), default=default)
    if chosen == active:
        click.echo(f"{active} stays.")
    else:
        ctx.invoke(use, name=chosen)


@plugins.command("list")
@as_json_flag
@click.pass_obj
def list_plugins(options: Options, as_json: bool) -> None:
    """List plugins and context engines with their problems."""
    overview = _survey(options)
    if as_json:
        general, engines = map(_as_dict, overview.general), map(_as_dict, overview.engines)
        print_json({"plugins": list(general), "context_engines": list(engines)})
    else:
        _print(overview)


@plugins.command()
@click.argument("name")
@click.pass_obj
def use(options: Options, name: str) -> None:
    """Choose the context engine: sets context.engine in hermes.yaml and keeps its comments."""
    from gateway.config.yaml_edit import set_values  # noqa: PLC0415 - not for `--help`; so below
    from gateway.plugins.engines import check_engine  # noqa: PLC0415
    from gateway.plugins.loader import survey_plugins  # noqa: PLC0415

    loaded = load_config(options, log_level="warning")
    found, _ = survey_plugins(loaded.home, loaded.config.plugins.enabled)
    check_engine(name, loaded, found)
    path = _edit(options, loaded, lambda text: set_values(text, "context", {"engine": name}))
    click.echo(f"Wrote context.engine: {name} to {path}. {_RESTART}")


@plugins.command()
@click.argument("name")
@click.pass_obj
def enable(options: Options, name: str) -> None:
    """Enable a plugin, after loading it as a test."""
    from gateway.config.yaml_edit import add_item  # noqa: PLC0415
    from gateway.plugins.loader import check_plugin  # noqa: PLC0415

    loaded = load_config(options, log_level="warning")
    enabled = loaded.config.plugins.enabled
    if name in enabled:
        click.echo(f"{name} is already enabled.")
        return
    check_plugin(name, home=loaded.home, enabled=enabled)
    _edit(options, loaded, lambda text: add_item(text, "plugins", "enabled", name))
    click.echo(f"{name} is enabled. {_RESTART}")


@plugins.command()
@click.argument("name")
@click.pass_obj
def disable(options: Options, name: str) -> None:
    """Disable a plugin."""
    from gateway.config.yaml_edit import remove_item  # noqa: PLC0415

    overview = _survey(options)
    if name not in overview.loaded.config.plugins.enabled:
        click.echo(f"{name} is not enabled.")
        return
    if any(info.active and info.origin == f"plugin {name}" for info in overview.engines):
        raise click.UsageError(
            f"{name} provides the context engine in use, {overview.active_engine}. "
            "First: `hermes plugins use compressor`."
        )
    _edit(options, overview.loaded, lambda text: remove_item(text, "plugins", "enabled", name))
    click.echo(f"{name} is disabled. {_RESTART}")


def _edit(options: Options, loaded: LoadedConfig, change: Callable[[str], str]) -> Path:
    """Edit the user's file, or a copy of the shipped file if there is none yet."""
    from gateway.config.loader import config_to_edit, ensure_home, existing_config, read_text  # noqa: PLC0415
    from gateway.config.yaml_edit import write_atomically  # noqa: PLC0415

    path = config_to_edit(options.config_path, loaded.home)
    ensure_home(loaded.home)
    write_atomically(path, change(read_text(existing_config(path))))
    return path


def _survey(options: Options) -> Overview:
    from gateway.plugins.engines import available_engines  # noqa: PLC0415
    from gateway.plugins.loader import survey_plugins  # noqa: PLC0415

    loaded = load_config(options, log_level="warning")
    active = loaded.config.context.engine
    # Output of plugins goes to standard error, not into the list.
    with contextlib.redirect_stdout(sys.stderr):
        found, general = survey_plugins(loaded.home, loaded.config.plugins.enabled)
        given = loaded.config.context.options
        engines = available_engines(loaded.home, found, active=active, options=given)
    return Overview(loaded, general, engines)


def _print(overview: Overview) -> None:
    out = console()
    names = [plugin.name for plugin in overview.general] + [engine.name for engine in overview.engines]
    width = max(map(len, names))
    out.print(f"Plugins in {overview.loaded.home / 'plugins'}", style="bold", soft_wrap=True)
    for plugin in overview.general:
        state = "enabled" if plugin.enabled else "not enabled"
        _print_entry(out, plugin, plugin.enabled, state, width)
    if not overview.general:
        out.print("    none")
    out.print()
    out.print("Provider Plugins", style="bold")
    missing = "" if any(info.active for info in overview.engines) else " (there is no such engine)"
    out.print(f"  Context Engine: {overview.active_engine}{missing}", soft_wrap=True)
    for engine in overview.engines:
        _print_entry(out, engine, engine.active, engine.origin, width)


def _print_entry(out: Console, info: PluginInfo | EngineInfo, on: bool, state: str, width: int) -> None:
    """Print name, state, version, and the description or the problem."""
    facts = ", ".join(filter(None, (state, info.version)))
    out.print(f"  {'*' if on else ' '} {info.name:<{width}}  ", end="", soft_wrap=True)
    out.print(f"({facts})  ", style="dim", end="", soft_wrap=True)
    style = "red" if info.problem else ""
    out.print(one_line(info.problem or info.description, 200), style=style, soft_wrap=True)


def _as_dict(info: PluginInfo | EngineInfo) -> dict[str, object]:
    return {**asdict(info), "folder": str(info.folder) if info.folder else None}
