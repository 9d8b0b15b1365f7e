"""Bot part of `hermes setup`: asks for a token, tries it, stores it and names the owner."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

import click
from pydantic import ValidationError

from gateway.cli.output import console, one_line
from gateway.cli.setup import incomplete_config
from gateway.config.environment import environment, save_secret
from gateway.config.loader import SHIPPED, read_text
from gateway.config.schema import PlatformSections
from gateway.config.schema_platforms import BotConfig
from gateway.config.yaml_edit import add_item, write_atomically
from gateway.platforms.base import BotAccount, BotTokenRefused, BotUnreachable, PlatformSpec, SetupGuide
from gateway.platforms.registry import PlatformRegistry, probe_bot
from gateway.process_lock import is_running

_NO_OWNER = "none"


def checked_token(spec: PlatformSpec, token: str) -> str:
    """Return the stripped token. The error says what a token looks like, and does not repeat the input."""
    token = token.strip()
    if not token:
        raise click.BadParameter(f"the {spec.title} token is empty; is the variable set that it comes from?")
    if problem := spec.token_problem(token):
        raise click.BadParameter(problem)
    return token


@dataclass(slots=True)
class BotSetup:
    """Sets up the main bot of one platform."""

    spec: PlatformSpec
    registry: PlatformRegistry
    sections: PlatformSections
    home: Path
    path: Path
    ask: bool
    offline: bool

    def run(self, token: str | None) -> bool:
        """Set up the bot; False if the service refused the token, or the bot cannot work yet."""
        config = self._config()
        try:
            token, account = (token, self._try(config, token)) if token else self._ask_until_it_works(config)
        except BotTokenRefused as error:
            _say(f"{error} Nothing was changed.")
            return False
        if not token:
            _say(f"{self.spec.title} is left as it is.")
            return True
        if config.token is None or config.token.get_secret_value() != token:
            self._save(token)
        owner_known = bool(config.admins or config.allowed_users)
        if self.ask and not owner_known and (owner := self._ask_owner(account)):
            self._add_admin(owner)
            owner_known = True
        return self._report(account, owner_known=owner_known)

    @property
    def _guide(self) -> SetupGuide:
        return self.spec.guide or SetupGuide((f"Create a bot on {self.spec.title} and copy its token.",))

    def _config(self) -> BotConfig:
        config: BotConfig
        if self.path.exists():
            platforms = incomplete_config(self.path, self.registry, self.sections).platforms
            config = getattr(platforms, self.spec.name)
        else:
            assert issubclass(self.spec.config, BotConfig)
            config = self.spec.config()
        return config

    def _try(self, config: BotConfig, token: str) -> BotAccount | None:
        """Return the token's account; None if the token could not be tried. Raises BotTokenRefused."""
        if self.offline or self.spec.probe is None:
            return None
        try:
            return asyncio.run(probe_bot(self.spec, config, token))
        except BotUnreachable as error:
            _say(f"{error} The token is stored as it is; `hermes doctor` tries it again.")
            return None

    def _ask_until_it_works(self, config: BotConfig) -> tuple[str, BotAccount | None]:
        """Return an empty token if the person wants no bot."""
        _say(f"\nA bot for {self.spec.title}:")
        for number, step in enumerate(self._guide.steps, start=1):
            _say(f"  {number}. {step}")
        known = config.token.get_secret_value() if config.token else ""
        while token := self._ask_token(known):
            try:
                return token, self._try(config, token)
            except BotTokenRefused as error:
                if not sys.stdin.isatty():
                    raise  # in a pipe, no person reads this and thinks again
                _say(str(error))
                known = ""
        return "", None

    def _ask_token(self, known: str) -> str:
        instead = "to keep the one that is set" if known else "to leave it out"
        answer: str = click.prompt(
            f"Token, or Enter {instead}",
            default="",
            show_default=False,
            # Without a terminal there is nothing to hide, and hiding would bypass the pipe.
            hide_input=sys.stdin.isatty(),
            value_proc=lambda text: text and checked_token(self.spec, text),
        )
        return answer or known

    def _save(self, token: str) -> None:
        variable = self.spec.token_variable
        _say(f"Wrote {variable} to {save_secret(self.home, variable, token)}")
        if environment(self.home)[variable] != token:
            _say(f"Note: the environment has another {variable}, and that one is used.")
            return
        config, section = self._config(), f"platforms.{self.spec.name}"
        if config.token and config.token.get_secret_value() != token:
            _say(f"Note: {self.path} names another token in {section}.token, and that one is used.")
        if config.enabled is False:
            _say(f"Note: {self.path} switches the bot off; set {section}.enabled to true.")

    def _ask_owner(self, account: BotAccount | None) -> str | None:
        _say(f"Your user id makes you the bot's admin. {self._guide.own_id}")
        owner_id = account.owner_id if account else ""
        if account and owner_id:
            owner = one_line(account.owner_name, 60)
            _say(f"{owner_id} is {owner}, who owns the application; press Enter only if that is you.")
        try:
            answer: str | None = click.prompt(
                f"Your {self.spec.title} id, or {_NO_OWNER}",
                default=owner_id or _NO_OWNER,
                value_proc=self._user_id,
            )
        except click.Abort:
            if sys.stdin.isatty():
                raise
            return None  # the answers came through a pipe, and there are no more
        return answer

    def _user_id(self, text: str) -> str | None:
        text = text.strip()
        if text.lower() == _NO_OWNER:
            return None
        assert issubclass(self.spec.config, BotConfig)
        try:
            return self.spec.config.model_validate({"admins": [text]}).admins[0]
        except ValidationError as error:
            problem = error.errors(include_url=False)[0].get("ctx", {}).get("error", "expected a user id")
            raise click.BadParameter(f"{problem}; or {_NO_OWNER}") from None

    def _add_admin(self, owner: str) -> None:
        text = read_text(self.path if self.path.exists() else SHIPPED)
        item = int(owner) if owner.isdigit() else owner
        write_atomically(self.path, add_item(text, f"platforms.{self.spec.name}", "admins", item))
        _say(f"Wrote platforms.{self.spec.name}.admins: {owner} to {self.path}")

    def _report(self, account: BotAccount | None, *, owner_known: bool) -> bool:
        """Say what to do next; False if something keeps the bot from working."""
        if account is not None:
            _say(f"The token is good. The bot is {one_line(account.name, 60)}.")
            if account.problem:
                _say(account.problem)
            _say(f"{self._guide.next_step} {account.link}".rstrip())
        start = "you restart Hermes, which is running" if is_running(self.home) else "you start `hermes run`"
        _say(f"It answers once {start}.")
        if not owner_known:
            _say("Then it gives you a code; `hermes pairing approve CODE` lets you in.")
        return account is None or not account.problem


def _say(text: str) -> None:
    console().print(text, soft_wrap=True)
