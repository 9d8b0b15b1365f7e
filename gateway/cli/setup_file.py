"""The file that `hermes setup` is about to complete."""

from __future__ import annotations

from pathlib import Path

from pydantic import SecretStr

from gateway.config.load import load
from gateway.config.platforms import TOKEN_VARIABLES
from gateway.config.schema import Config

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
