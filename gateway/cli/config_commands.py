"""`hermes config`: checks and shows the configuration."""

from __future__ import annotations

import click

from agent.errors import HermesError
from gateway.cli import Options, load_config
from gateway.cli.output import console


@click.group()
def config() -> None:
    """Check or show the configuration."""


@config.command()
@click.pass_context
def check(ctx: click.Context) -> None:
    """Check the configuration and report every mistake.

    The exit code is 0, or 2 if there are mistakes.
    """
    options: Options = ctx.obj
    from gateway.reload import check_names  # noqa: PLC0415

    try:
        loaded = load_config(options)
        check_names(loaded, keys=True)
    except HermesError as error:
        console(stderr=True).print(str(error), soft_wrap=True)
        ctx.exit(error.exit_code)
    console().print(f"ok: {loaded.source}", soft_wrap=True)


@config.command()
@click.pass_obj
def show(options: Options) -> None:
    """Print the configuration in effect and where each value comes from. Secrets are masked."""
    from gateway.config.secrets import effective_lines  # noqa: PLC0415

    loaded = load_config(options)
    out = console()
    out.print(f"# Settings: {loaded.source}", style="dim", soft_wrap=True)
    out.print(f"# State directory: {loaded.home}", style="dim", soft_wrap=True)
    for line in effective_lines(loaded):
        out.print(f"{line.indent}{line.name}: {line.value}".rstrip(), end="", soft_wrap=True)
        out.print(line.origin and f"  # {line.origin}", style="dim", soft_wrap=True)
