"""Model part of `hermes setup`: asks for a provider, a model and a key, and tries the model."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import click

from agent.errors import ModelError
from gateway.cli.output import console
from gateway.cli.setup import incomplete_config
from gateway.config.environment import PROVIDER_KEYS, environment, save_secret
from gateway.config.fields import URL_PATTERN
from gateway.config.loader import SHIPPED, read_text
from gateway.config.yaml_edit import set_values, write_atomically
from gateway.models.embedded import MODEL_ID
from gateway.models.selection import DEFAULT_MODELS
from gateway.observability.logs import configure_logging

SECONDS_TO_ANSWER = 30
OTHER_KEY = "HERMES_API_KEY"
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
    out = console()
    out.print("Which provider should answer?")
    for name, description in _PROVIDERS.items():
        out.print(f"  {name:<11} {description}")
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
    may_be_empty = optional or bool(known.get(variable))
    key: str = click.prompt(
        question,
        default="" if may_be_empty else None,
        show_default=False,
        # Without a terminal there is nothing to hide, and hiding would bypass the pipe.
        hide_input=sys.stdin.isatty(),
        value_proc=lambda text: text and checked_key(text),
    )
    return key or None


def _save(answers: ModelAnswers, path: Path, home: Path) -> None:
    out = console()
    variable = _variable(answers.model, answers.base_url)
    needs_key = _provider(answers.model, answers.base_url) != _EMBEDDED
    has_key = bool(answers.api_key or environment(home).get(variable))
    values = {
        "name": answers.model,
        "base_url": answers.base_url,
        "api_key": f"${{{variable}}}" if needs_key and has_key else None,
    }
    text = set_values(read_text(path if path.exists() else SHIPPED), "model", values)
    if answers.api_key:
        out.print(f"Wrote {variable} to {save_secret(home, variable, answers.api_key)}", soft_wrap=True)
        if environment(home)[variable] != answers.api_key:
            out.print(f"Note: the environment has another {variable}, and that one is used.", soft_wrap=True)
    write_atomically(path, text)
    out.print(f"Wrote {answers.model} to {path}", soft_wrap=True)


def _answers(path: Path) -> bool:
    from gateway.cli.model_probe import ask_model  # noqa: PLC0415 - loads the model client

    configure_logging("error", "human")  # keep log lines out of the dialogue
    model = incomplete_config(path).model
    out = console()
    if model.context_length:
        out.print(f"model.context_length stays {model.context_length}; is that the window of {model.name}?")
    out.print(f"Asking {model.name} for an answer ...")
    try:
        ask_model(model, seconds=SECONDS_TO_ANSWER)
    except ModelError as error:
        out.print(f"The settings are saved. {error}", soft_wrap=True)
        return error.transient
    out.print("It answers.")
    return True


def _provider(model: str, base_url: str | None) -> str:
    return _SERVER if base_url else model.partition("/")[0]


def _variable(model: str, base_url: str | None) -> str:
    name = f"{_provider(model, base_url).upper()}_API_KEY"
    return name if name in PROVIDER_KEYS else OTHER_KEY
