"""`hermes config`: is the configuration right, and what is in effect?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import click

from agent.errors import HermesError
from gateway.cli import Options
from gateway.cli.output import console

_OPTIONS = "context.options."
_MASK = "'**********'"


@click.group()
def config() -> None:
    """Check or show the configuration."""


@config.command()
@click.pass_context
def check(ctx: click.Context) -> None:
    """Say whether the configuration can be used, and name every mistake in it.

    The exit code is 0 or 2.
    """
    options: Options = ctx.obj
    from gateway.config.load import load  # noqa: PLC0415 - heavy, and `--help` needs none of it
    from gateway.config_check import check_names  # noqa: PLC0415

    try:
        loaded = load(options.config_path)
        check_names(loaded)
    except HermesError as error:
        console(stderr=True).print(str(error), soft_wrap=True)
        ctx.exit(error.exit_code)
    console().print(f"ok: {loaded.path or 'the defaults that come with Hermes'}", soft_wrap=True)


@config.command()
@click.pass_obj
def show(options: Options) -> None:
    """Print the configuration in effect and where each value comes from. Secrets are masked."""
    from gateway.config.load import load  # noqa: PLC0415 - heavy, and `--help` needs none of it

    loaded = load(options.config_path)
    out = console()
    out.print(f"# {loaded.path or 'The defaults that come with Hermes'}", style="dim", soft_wrap=True)
    out.print(f"# State directory: {loaded.home}", style="dim", soft_wrap=True)
    for text, origin in _lines(loaded.config.model_dump(mode="json"), "", loaded.origins):
        out.print(text, end="", soft_wrap=True)
        out.print(origin and f"  # {origin}", style="dim", soft_wrap=True)


def _lines(section: Mapping[str, Any], prefix: str, origins: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The section as YAML, line by line, each with where its value comes from."""
    indent = "  " * prefix.count(".")
    for name, value in section.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and value:
            yield f"{indent}{name}:", ""
            yield from _lines(value, f"{key}.", origins)
        else:
            shown = _MASK if _is_from_a_variable(key, origins) else _as_yaml(value)
            yield f"{indent}{name}: {shown}", origins.get(key, "default")


def _is_from_a_variable(key: str, origins: Mapping[str, str]) -> bool:
    """Among the engine's options: nobody but the engine knows which are secret, and secrets are in variables."""
    return key.startswith(_OPTIONS) and any(
        origin.startswith("$")
        for name, origin in origins.items()
        if name == key or name.startswith(f"{key}[")
    )


def _as_yaml(value: Any) -> str:
    """On one line."""
    import yaml  # noqa: PLC0415 - `--help` needs none of it

    if isinstance(value, str) and "\n" in value:
        return json.dumps(value, ensure_ascii=False)
    text: str = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=float("inf"))
    return text.removesuffix("...\n").rstrip("\n")
