"""`hermes setup`: a few questions, then a `hermes.yaml` that works and bots that are connected."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pydantic import SecretStr

from gateway.cli import Options, tell_ignored
from gateway.config.loader import load
from gateway.config.schema import Config
from gateway.config.schema_platforms import TOKEN_VARIABLES

if TYPE_CHECKING:
    from gateway.cli.setup_model import Choice
_TO_COME = SecretStr("1:still-to-come")


def unfinished(path: Path) -> Config:
    """What it says so far. That a bot is on and has no token is what the setup is there to mend."""
    assumed = dict.fromkeys(TOKEN_VARIABLES.values(), _TO_COME.get_secret_value())
    config = load(path, assumed=assumed).config
    platforms = config.platforms
    for service in TOKEN_VARIABLES:
        section = getattr(platforms, service)
        if section.token == _TO_COME:
            platforms = platforms.model_copy(update={service: section.model_copy(update={"token": None})})
    return config.model_copy(update={"platforms": platforms})


_BOTS = {"telegram": "Telegram", "discord": "Discord"}
_PARTS = ("model", *_BOTS)


@click.command()
@click.option("--only", type=click.Choice(_PARTS), help="Set up this and leave the rest as it is.")
@click.option("--model", help="A litellm id, such as anthropic/claude-sonnet-4-5, or embedded/smollm2.")
@click.option("--api-key", help="Its key. It goes into .env in the state directory, not into hermes.yaml.")
@click.option("--base-url", help="The address of an OpenAI-compatible server.")
@click.option("--telegram-token", help="The token of a Telegram bot. It goes into .env, too.")
@click.option("--discord-token", help="The token of a Discord bot. It goes into .env, too.")
@click.option("--non-interactive", is_flag=True, help="Ask nothing; the other options say what to set up.")
@click.option("--offline", is_flag=True, help="Do not try whether the model answers and the tokens are good.")
@click.pass_obj
def setup(
    options: Options,
    only: str | None,
    model: str | None,
    api_key: str | None,
    base_url: str | None,
    telegram_token: str | None,
    discord_token: str | None,
    non_interactive: bool,
    offline: bool,
) -> None:
    """Choose a model, connect Telegram and Discord, write hermes.yaml.

    Without options it asks about everything, with options only about what they are for. In hermes.yaml only these
    settings are changed; comments and all else stay as they are. Keys and tokens go into the file .env in the
    state directory, which only you can read.
    """
    from gateway.cli.setup_bots import checked_token, set_up_bot  # noqa: PLC0415 - not for `--help`
    from gateway.cli.setup_model import (  # noqa: PLC0415
        Choice,
        checked_key,
        checked_url,
        set_up_model,
    )
    from gateway.config.loader import ensure_home, find, ignored_file, state_directory  # noqa: PLC0415

    given = Choice(model or "", base_url and checked_url(base_url), api_key and checked_key(api_key))
    typed = {"telegram": telegram_token, "discord": discord_token}
    tokens = {bot: None if token is None else checked_token(bot, token) for bot, token in typed.items()}
    named = [*(["model"] if any((model, base_url, api_key)) else []), *(bot for bot in tokens if tokens[bot])]
    parts = _parts(only, named)
    if non_interactive:
        _refuse_what_would_be_asked(parts, given, tokens)
    home = state_directory()
    ensure_home(home)
    path = find(options.config_path, home) or home / "hermes.yaml"
    tell_ignored(ignored_file(options.config_path, path), str(path))
    ask, works = not non_interactive, True
    for part in parts:
        if part == "model":
            works &= set_up_model(given, home, path, ask=ask, offline=offline)
        elif only or part in named or _wanted(part):
            works &= set_up_bot(part, tokens[part], home, path, ask=ask, offline=offline)
    if not works:
        raise click.exceptions.Exit(1)
    if "model" in parts:
        click.echo("Start with `hermes chat`, or with `hermes run` and a browser.")


def _parts(only: str | None, named: Sequence[str]) -> Sequence[str]:
    """What to set up: `named` are those that options were given for."""
    if only is None:
        return named or _PARTS
    if others := [part for part in named if part != only]:
        raise click.UsageError(f"--only {only} leaves out {' and '.join(others)}; give no options for that.")
    return [only]


def _refuse_what_would_be_asked(
    parts: Sequence[str], given: Choice, tokens: Mapping[str, str | None]
) -> None:
    if "model" in parts and not given.model:
        others = "" if len(parts) == 1 else ", --telegram-token or --discord-token"
        raise click.UsageError(f"--non-interactive needs --model{others}.")
    for part in parts:
        if part in tokens and not tokens[part]:
            raise click.UsageError(f"--non-interactive needs --{part}-token.")


def _wanted(part: str) -> bool:
    try:
        return click.confirm(f"\nConnect {_BOTS[part]}", default=False)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        return False  # the answers came through a pipe, and there are no more
