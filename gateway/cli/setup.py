"""`hermes setup`: asks a few questions, writes a working `hermes.yaml` and connects bots."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.cli import Options, tell_ignored
from gateway.config.environment import state_directory
from gateway.config.loader import config_to_edit, ensure_home, existing_config, ignored_file
from gateway.config.schema import PlatformSections
from gateway.errors import ConfigError
from gateway.platforms.registry import PlatformRegistry

if TYPE_CHECKING:
    from gateway.cli.setup_steps import ModelAnswers

_MODEL = "model"


def _known_platforms(path: Path, home: Path) -> tuple[PlatformRegistry, PlatformSections]:
    """Return the built-in platforms and those of the plugins that the file enables."""
    from gateway.cli.setup_steps import incomplete_config  # noqa: PLC0415 - not for `--help`; so below
    from gateway.plugins.loader import survey_plugins  # noqa: PLC0415

    built_in = PlatformRegistry()
    try:
        enabled = incomplete_config(existing_config(path)).plugins.enabled
    except ConfigError:
        return built_in, {}  # reported once the file is needed
    plugins, _ = survey_plugins(home, enabled) if enabled else (None, ())
    return (PlatformRegistry.with_plugins(plugins), plugins.platform_sections) if plugins else (built_in, {})


def _token_options(command: Callable[..., None]) -> Callable[..., None]:
    for spec in reversed(PlatformRegistry().bots):
        help_text = f"The token of a {spec.title} bot, also stored in .env."
        command = click.option(f"--{spec.name}-token", help=help_text)(command)
    return command


@click.command()
@click.option(
    "--only", metavar="PART", help="Set up only this: model, telegram, discord, or a plugin's platform."
)
@click.option("--model", help="A litellm id, such as anthropic/claude-sonnet-4-5, or embedded/smollm2.")
@click.option("--api-key", help="The key of the model, stored in .env in the state directory.")
@click.option("--base-url", help="The address of an OpenAI-compatible server.")
@_token_options
@click.option("--token", help="The token of the bot that --only names, also stored in .env.")
@click.option("--non-interactive", is_flag=True, help="Ask nothing; the other options say what to set up.")
@click.option("--offline", is_flag=True, help="Do not try the model and the tokens.")
@click.pass_obj
def setup(
    options: Options,
    /,
    only: str | None,
    model: str | None,
    api_key: str | None,
    base_url: str | None,
    token: str | None,
    non_interactive: bool,
    offline: bool,
    **bot_tokens: str | None,
) -> None:
    """Choose a model, connect bots, write hermes.yaml.

    Without options it asks about the model and every bot; with options, only about the parts that they name. Comments
    and other settings in hermes.yaml stay as they are. Keys and tokens go into the file .env in the state directory,
    which only you can read.
    """
    from gateway.cli.setup_steps import (  # noqa: PLC0415
        BotSetup,
        ModelAnswers,
        checked_key,
        checked_token,
        checked_url,
        set_up_model,
    )

    answers = ModelAnswers(model or "", base_url and checked_url(base_url), api_key and checked_key(api_key))
    home = state_directory()
    path = config_to_edit(options.config_path, home)
    registry, sections = _known_platforms(path, home)
    typed = {name.removesuffix("_token"): value for name, value in bot_tokens.items()}
    if token is not None:
        if only is None or only == _MODEL:
            raise click.UsageError("--token needs --only and the name of a platform.")
        typed[only] = token
    _check_part(only, registry)
    tokens = {
        name: None if value is None else checked_token(registry[name], value) for name, value in typed.items()
    }
    given = [
        *([_MODEL] if any((model, base_url, api_key)) else []),
        *(name for name, value in tokens.items() if value),
    ]
    parts = _parts(only, given, registry)
    if non_interactive:
        _refuse_questions(parts, answers, tokens)
    ensure_home(home)
    tell_ignored(ignored_file(options.config_path, path), str(path))
    ask, works = not non_interactive, True
    for part in parts:
        if part == _MODEL:
            works &= set_up_model(answers, home, path, ask=ask, offline=offline)
        elif only or part in given or _confirm(registry[part].title):
            bot = BotSetup(registry[part], registry, sections, home, path, ask=ask, offline=offline)
            works &= bot.run(tokens.get(part))
    if not works:
        raise click.exceptions.Exit(1)
    if _MODEL in parts:
        click.echo("Start with `hermes chat`, or with `hermes run` and a browser.")


def _check_part(only: str | None, registry: PlatformRegistry) -> None:
    known = [_MODEL, *(spec.name for spec in registry.bots)]
    if only is not None and only not in known:
        raise click.BadParameter(
            f"{only!r} is not one of {', '.join(known)}. `hermes plugins` shows whether a plugin that adds a platform "
            "is enabled.",
            param_hint="--only",
        )


def _parts(only: str | None, given: Sequence[str], registry: PlatformRegistry) -> Sequence[str]:
    """List what to set up. `given` are the parts that have options."""
    if only is None:
        return given or (_MODEL, *(spec.name for spec in registry.bots))
    if others := [part for part in given if part != only]:
        raise click.UsageError(f"--only {only} leaves out {' and '.join(others)}; give no options for that.")
    return [only]


def _refuse_questions(parts: Sequence[str], answers: ModelAnswers, tokens: Mapping[str, Any]) -> None:
    """Refuse a part that cannot be set up without a question."""
    if _MODEL in parts and not answers.model:
        others = "" if len(parts) == 1 else ", --telegram-token or --discord-token"
        raise click.UsageError(f"--non-interactive needs --model{others}.")
    for part in parts:
        if part != _MODEL and not tokens.get(part):
            option = f"--{part}-token" if part in PlatformRegistry() else "--token"
            raise click.UsageError(f"--non-interactive needs {option}.")


def _confirm(title: str) -> bool:
    try:
        return click.confirm(f"\nConnect {title}", default=False)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        return False  # the answers came through a pipe, and there are no more
