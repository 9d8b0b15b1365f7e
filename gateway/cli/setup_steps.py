"""Steps of `hermes setup`: the model (provider, name, key), and a bot (token, owner). Both are tried before the end."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import click
from pydantic import SecretStr, ValidationError

from agent.errors import ModelError
from gateway.cli.output import one_line, say
from gateway.config.environment import PROVIDER_KEYS, environment, save_secret
from gateway.config.fields import URL_PATTERN
from gateway.config.loader import existing_config, load, read_text
from gateway.config.schema import Config, PlatformSections
from gateway.config.schema_platforms import BotConfig
from gateway.config.yaml_edit import add_item, set_values, write_atomically
from gateway.models.embedded import MODEL_ID
from gateway.models.selection import DEFAULT_MODELS
from gateway.observability.logs import configure_logging
from gateway.platforms.base import BotAccount, BotTokenRefused, BotUnreachable, PlatformSpec, SetupGuide
from gateway.platforms.registry import PlatformRegistry, probe_bot
from gateway.process_lock import is_running

_ASSUMED_TOKEN = SecretStr("1:still-to-come")
_NO_OWNER = "none"
_SECONDS_TO_ANSWER = 30
_OTHER_KEY = "HERMES_API_KEY"
"""Variable for the key of a server that is not one of the known providers."""

_OLLAMA = "http://127.0.0.1:11434/v1"
_SERVER, _EMBEDDED = "server", "embedded"
_PROVIDERS = {
    "anthropic": "Anthropic",
    "openai": "OpenAI",
    "openrouter": "OpenRouter: many models with one key",
    _SERVER: "Ollama, or any other OpenAI-compatible server",
    _EMBEDDED: "a small demonstration model inside Hermes: no key, no network",
}


def incomplete_config(
    path: Path, registry: PlatformRegistry | None = None, sections: PlatformSections | None = None
) -> Config:
    """Read the file although a bot that is on may lack its token, which the setup is about to ask for."""
    registry = registry or PlatformRegistry()
    variables = [spec.token_variable for spec in registry.bots]
    config = load(
        path, assumed=dict.fromkeys(variables, _ASSUMED_TOKEN.get_secret_value()), sections=sections
    ).config
    platforms = config.platforms
    for spec in registry.bots:
        section = getattr(platforms, spec.name)
        if section.token == _ASSUMED_TOKEN:
            platforms = platforms.model_copy(update={spec.name: section.model_copy(update={"token": None})})
    return config.model_copy(update={"platforms": platforms})


# -- the model -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ModelAnswers:
    """Model settings from the options and the person's answers. No key: none is needed, or it is already set."""

    model: str
    """Empty until the person chooses one."""
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)


def set_up_model(given: ModelAnswers, home: Path, path: Path, *, ask: bool, offline: bool) -> bool:
    """Ask, save and try the model; False if the model refused. An unreachable network is not a refusal."""
    _save(_ask_person(home, given) if ask else given, path, home)
    return offline or _answers(path)


def checked_url(url: str) -> str:
    if not re.match(URL_PATTERN, url):
        raise click.BadParameter(f"expected an http or https URL without a password, such as {_OLLAMA}")
    return url


def checked_key(key: str) -> str:
    """Return the stripped key, which must be one printable word."""
    key = key.strip()
    if not re.fullmatch(r"[!-~]+", key):
        raise click.BadParameter("expected a key without spaces or line breaks")
    return key


def _ask_person(home: Path, given: ModelAnswers) -> ModelAnswers:
    """Ask for what the options leave open."""
    known, model, base_url, api_key = environment(home), given.model, given.base_url, given.api_key
    provider = _provider(model, base_url) if model or base_url else _ask_provider(known)
    if provider == _SERVER and base_url is None:
        base_url = click.prompt("Its address", default=_OLLAMA, value_proc=checked_url)
    if not model:
        model = _ask_model(provider)
    if api_key is None and provider != _EMBEDDED:
        api_key = _ask_key(_variable(model, base_url), known, optional=provider == _SERVER)
    return ModelAnswers(model, base_url, api_key)


def _ask_provider(known: Mapping[str, str]) -> str:
    say("Which provider should answer?")
    for name, description in _PROVIDERS.items():
        say(f"  {name:<11} {description}")
    with_key = (name for name in _PROVIDERS if known.get(f"{name.upper()}_API_KEY"))
    answer: str = click.prompt(
        "Choose", type=click.Choice(list(_PROVIDERS)), default=next(with_key, _EMBEDDED)
    )
    return answer


def _ask_model(provider: str) -> str:
    if provider == _EMBEDDED:
        return MODEL_ID
    name: str = click.prompt("Which model", default=DEFAULT_MODELS.get(f"{provider.upper()}_API_KEY"))
    prefix = "openai" if provider == _SERVER else provider
    return name if name.startswith(f"{prefix}/") else f"{prefix}/{name}"


def _ask_key(variable: str, known: Mapping[str, str], *, optional: bool) -> str | None:
    question = f"Key ({variable})"
    if known.get(variable):
        question += ", or Enter to keep the one that is set"
    elif optional:
        question += ", or Enter for none"
    key = _ask_secret(question, checked_key, optional=optional or bool(known.get(variable)))
    return key or None


def _ask_secret(question: str, check: Callable[[str], str], *, optional: bool = True) -> str:
    answer: str = click.prompt(
        question,
        default="" if optional else None,
        show_default=False,
        # Without a terminal there is nothing to hide, and hiding would bypass the pipe.
        hide_input=sys.stdin.isatty(),
        value_proc=lambda text: text and check(text),
    )
    return answer


def _write_secret(home: Path, variable: str, value: str) -> bool:
    """Write the variable to .env; False if the environment has another value, which takes precedence."""
    say(f"Wrote {variable} to {save_secret(home, variable, value)}")
    if environment(home)[variable] == value:
        return True
    say(f"Note: the environment has another {variable}, and that one is used.")
    return False


def _save(answers: ModelAnswers, path: Path, home: Path) -> None:
    variable = _variable(answers.model, answers.base_url)
    needs_key = _provider(answers.model, answers.base_url) != _EMBEDDED
    has_key = bool(answers.api_key or environment(home).get(variable))
    values = {
        "name": answers.model,
        "base_url": answers.base_url,
        "api_key": f"${{{variable}}}" if needs_key and has_key else None,
    }
    text = set_values(read_text(existing_config(path)), "model", values)
    if answers.api_key:
        _write_secret(home, variable, answers.api_key)
    write_atomically(path, text)
    say(f"Wrote {answers.model} to {path}")


def _answers(path: Path) -> bool:
    from gateway.cli.doctor_checks_agent import ask_model  # noqa: PLC0415 - loads the model client

    configure_logging("error", "human")  # keep log lines out of the dialogue
    model = incomplete_config(path).model
    if model.context_length:
        say(f"model.context_length stays {model.context_length}; is that the window of {model.name}?")
    say(f"Asking {model.name} for an answer ...")
    try:
        ask_model(model, seconds=_SECONDS_TO_ANSWER)
    except ModelError as error:
        say(f"The settings are saved. {error}")
        return error.transient
    say("It answers.")
    return True


def _provider(model: str, base_url: str | None) -> str:
    return _SERVER if base_url else model.partition("/")[0]


def _variable(model: str, base_url: str | None) -> str:
    name = f"{_provider(model, base_url).upper()}_API_KEY"
    return name if name in PROVIDER_KEYS else _OTHER_KEY


# -- a bot ---------------------------------------------------------------------------------------------------


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
            say(f"{error} Nothing was changed.")
            return False
        if not token:
            say(f"{self.spec.title} is left as it is.")
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
            say(f"{error} The token is stored as it is; `hermes doctor` tries it again.")
            return None

    def _ask_until_it_works(self, config: BotConfig) -> tuple[str, BotAccount | None]:
        """Return an empty token if the person wants no bot."""
        say(f"\nA bot for {self.spec.title}:")
        for number, step in enumerate(self._guide.steps, start=1):
            say(f"  {number}. {step}")
        known = config.token.get_secret_value() if config.token else ""
        while token := self._ask_token(known):
            try:
                return token, self._try(config, token)
            except BotTokenRefused as error:
                if not sys.stdin.isatty():
                    raise  # in a pipe, no person reads this and thinks again
                say(str(error))
                known = ""
        return "", None

    def _ask_token(self, known: str) -> str:
        instead = "to keep the one that is set" if known else "to leave it out"
        return _ask_secret(f"Token, or Enter {instead}", lambda text: checked_token(self.spec, text)) or known

    def _save(self, token: str) -> None:
        variable = self.spec.token_variable
        if not _write_secret(self.home, variable, token):
            return
        config, section = self._config(), f"platforms.{self.spec.name}"
        if config.token and config.token.get_secret_value() != token:
            say(f"Note: {self.path} names another token in {section}.token, and that one is used.")
        if config.enabled is False:
            say(f"Note: {self.path} switches the bot off; set {section}.enabled to true.")

    def _ask_owner(self, account: BotAccount | None) -> str | None:
        say(f"Your user id makes you the bot's admin. {self._guide.own_id}")
        owner_id = account.owner_id if account else ""
        if account and owner_id:
            owner = one_line(account.owner_name, 60)
            say(f"{owner_id} is {owner}, who owns the application; press Enter only if that is you.")
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
        text = read_text(existing_config(self.path))
        item = int(owner) if owner.isdigit() else owner
        write_atomically(self.path, add_item(text, f"platforms.{self.spec.name}", "admins", item))
        say(f"Wrote platforms.{self.spec.name}.admins: {owner} to {self.path}")

    def _report(self, account: BotAccount | None, *, owner_known: bool) -> bool:
        """Say what to do next; False if something keeps the bot from working."""
        if account is not None:
            say(f"The token is good. The bot is {one_line(account.name, 60)}.")
            if account.problem:
                say(account.problem)
            say(f"{self._guide.next_step} {account.link}".rstrip())
        start = "you restart Hermes, which is running" if is_running(self.home) else "you start `hermes run`"
        say(f"It answers once {start}.")
        if not owner_known:
            say("Then it gives you a code; `hermes pairing approve CODE` lets you in.")
        return account is None or not account.problem
