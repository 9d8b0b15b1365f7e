"""The part of `hermes setup` that is about a Telegram or a Discord bot: where to click, and whether it worked."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import click

from gateway.cli.bots import Bot, BotAccount, BotTokenRefused, BotUnreachable, ask_bot
from gateway.cli.output import console, one_line
from gateway.cli.setup import unfinished
from gateway.config.environment import environment, remember_secret
from gateway.config.loader import SHIPPED, read_text
from gateway.config.schema_platforms import TOKEN_VARIABLES, DiscordConfig, TelegramConfig
from gateway.config.secrets import token_problem
from gateway.config.yaml_edit import with_item, write
from gateway.process_lock import is_running

_NOBODY = "none"


@dataclass(frozen=True, slots=True)
class _Service:
    """What a person has to know about it."""

    title: str
    steps: tuple[str, ...]
    own_id: str
    """How people find their number."""
    begin: str
    """What to do with the bot's link."""


_SERVICES = {
    "telegram": _Service(
        "Telegram",
        (
            "Open https://t.me/BotFather in Telegram and press Start.",
            "Send /newbot, then a name for the bot, then a user name that ends in `bot`.",
            "BotFather answers with a token such as 123456789:AAF-x2b… Copy it and paste it here.",
        ),
        "Telegram does not show it to you; leave it at `none` if you do not know it.",
        "Write to it at",
    ),
    "discord": _Service(
        "Discord",
        (
            "Open https://discord.com/developers/applications and press New Application; give it a name.",
            "On its page Installation, set Install Link to None and press Save Changes.",
            "On its page Bot, switch Public Bot off, so that nobody else can add it, and Message Content Intent on; "
            "press Save Changes.",
            "There, press Reset Token. Copy the token and paste it here.",
        ),
        "In Discord: Settings, Advanced, Developer Mode; then right-click your name and Copy User ID.",
        "Invite it to a server you are in, then write to it:",
    ),
}


def set_up_bot(platform: str, token: str | None, home: Path, path: Path, *, ask: bool, offline: bool) -> bool:
    """False if the service said no to the token, or to what the bot is for."""
    settings = _settings(platform, path)
    try:
        token, account = (
            (token, _tried(settings, token, offline=offline))
            if token
            else _ask_until_it_works(platform, settings, offline=offline)
        )
    except BotTokenRefused as error:
        _say(f"{error} Nothing was changed.")
        return False
    if not token:
        _say(f"{_SERVICES[platform].title} is left as it is.")
        return True
    if settings.token is None or settings.token.get_secret_value() != token:
        _save(platform, token, home, path)
    owner_known = bool(settings.admins or settings.allowed_users)
    if ask and not owner_known and (owner := _ask_owner(platform, account)):
        _make_admin(platform, owner, path)
        owner_known = True
    return _tell(platform, account, home, owner_known=owner_known)


def checked_token(platform: str, token: str) -> str:
    """The complaint says what a token looks like, and not what was typed."""
    token = token.strip()
    if not token:
        raise click.BadParameter(
            f"the {_SERVICES[platform].title} token is empty; is the variable set that it comes from?"
        )
    if problem := token_problem(platform, token):
        raise click.BadParameter(problem)
    return token


def _settings(platform: str, path: Path) -> Bot:
    if not path.exists():
        return TelegramConfig() if platform == "telegram" else DiscordConfig()
    platforms = unfinished(path).platforms
    return platforms.telegram if platform == "telegram" else platforms.discord


def _tried(settings: Bot, token: str, *, offline: bool) -> BotAccount | None:
    """None if it could not be tried, which says nothing about the token. Raises BotTokenRefused."""
    if offline:
        return None
    try:
        return ask_bot(settings, token)
    except BotUnreachable as error:
        _say(f"{error} It is taken as it is; `hermes doctor` tries it again.")
        return None


def _ask_until_it_works(platform: str, settings: Bot, *, offline: bool) -> tuple[str, BotAccount | None]:
    """An empty token if the person wants none."""
    service = _SERVICES[platform]
    _say(f"\nA bot for {service.title}:")
    for number, step in enumerate(service.steps, start=1):
        _say(f"  {number}. {step}")
    known = settings.token.get_secret_value() if settings.token else ""
    while token := _ask_token(platform, known):
        try:
            return token, _tried(settings, token, offline=offline)
        except BotTokenRefused as error:
            if not sys.stdin.isatty():
                raise  # in a pipe, nobody reads this and thinks again
            _say(str(error))
            known = ""
    return "", None


def _ask_token(platform: str, known: str) -> str:
    instead = "to keep the one that is set" if known else "to leave it out"
    answer: str = click.prompt(
        f"Token, or Enter {instead}",
        default="",
        show_default=False,
        # Without a terminal there is nobody to look over the shoulder, and hiding would bypass the pipe.
        hide_input=sys.stdin.isatty(),
        value_proc=lambda text: text and checked_token(platform, text),
    )
    return answer or known


def _save(platform: str, token: str, home: Path, path: Path) -> None:
    variable = TOKEN_VARIABLES[platform]
    _say(f"Wrote {variable} to {remember_secret(home, variable, token)}")
    if environment(home)[variable] != token:
        _say(f"Note: the environment has another {variable}, and that one is used.")
        return
    settings = _settings(platform, path)
    if settings.token and settings.token.get_secret_value() != token:
        _say(f"Note: {path} names another token in platforms.{platform}.token, and that one is used.")
    if settings.enabled is False:
        _say(f"Note: {path} switches the bot off; set platforms.{platform}.enabled to true.")


def _ask_owner(platform: str, account: BotAccount | None) -> int | None:
    service = _SERVICES[platform]
    _say(f"Your numeric id makes you the bot's admin. {service.own_id}")
    owner_id = account.owner_id if account else ""
    if account and owner_id:
        owner = one_line(account.owner_name, 60)
        _say(f"{owner_id} is {owner}, who owns the application; press Enter only if that is you.")
    try:
        answer: int | None = click.prompt(
            f"Your {service.title} id, or {_NOBODY}",
            default=owner_id or _NOBODY,
            value_proc=_number_or_nobody,
        )
    except click.Abort:
        if sys.stdin.isatty():
            raise
        return None  # the answers came through a pipe, and there are no more
    return answer


def _number_or_nobody(text: str) -> int | None:
    text = text.strip()
    if text.lower() == _NOBODY:
        return None
    if not (text.isascii() and text.isdigit()):
        raise click.BadParameter(f"expected digits only, or {_NOBODY}; a name can change hands")
    return int(text)


def _make_admin(platform: str, owner: int, path: Path) -> None:
    text = read_text(path if path.exists() else SHIPPED)
    write(path, with_item(text, f"platforms.{platform}", "admins", owner))
    _say(f"Wrote platforms.{platform}.admins: {owner} to {path}")


def _tell(platform: str, account: BotAccount | None, home: Path, *, owner_known: bool) -> bool:
    """What to do next; False if something keeps the bot from working."""
    if account is not None:
        _say(f"The token is good. The bot is {one_line(account.name, 60)}.")
        if account.problem:
            _say(account.problem)
        _say(f"{_SERVICES[platform].begin} {account.link}")
    started = "Hermes is started again: it runs already" if is_running(home) else "`hermes run` is started"
    _say(f"It answers once {started}.")
    if not owner_known:
        _say("It gives you a code then; `hermes pairing approve CODE` lets you in.")
    return account is None or not account.problem


def _say(text: str) -> None:
    console().print(text, soft_wrap=True)
