"""What `hermes doctor` says about the daily budget, where there is one."""

from __future__ import annotations

from collections.abc import Iterator

from agent.errors import HermesError
from gateway.cli.doctor_checks import Finding
from gateway.config.schema import Config
from gateway.limits.spending import dollars
from gateway.models.auxiliary import auxiliary_spec
from gateway.models.catalog import has_price
from gateway.models.choose import is_on_this_machine
from gateway.models.configured import configured_models


def limits(config: Config) -> Iterator[Finding]:
    """Only what the owner has set is worth a line."""
    caps = {
        "for each person": config.limits.daily_usd_per_person,
        "for everybody": config.limits.daily_usd_total,
    }
    told = [f"{dollars(cap)} {whose}" for whose, cap in caps.items() if cap is not None]
    if not told:
        return
    yield Finding("ok", f"daily budget: {' and '.join(told)}, from midnight to midnight, local time")
    try:
        unknown = [model for model, base_url in _models(config) if not _price_is_known(model, base_url)]
    except HermesError:
        return  # said in the line about the model
    if unknown:
        assumed = f"{dollars(config.limits.unknown_price)} per million tokens"
        yield Finding(
            "warn",
            f"the price of {', '.join(dict.fromkeys(unknown))} is not known; against the daily budget it counts as "
            f"{assumed} (limits.unknown_price)",
        )


def _models(config: Config) -> Iterator[tuple[str, str | None]]:
    """All that are asked for money, and where."""
    yield from configured_models(config.model)
    summaries, voice = (
        auxiliary_spec(config.auxiliary.compression, config.model),
        config.auxiliary.transcription,
    )
    if summaries:
        yield summaries.name, summaries.base_url
    if voice.model:
        yield voice.model, voice.base_url


def _price_is_known(model: str, base_url: str | None) -> bool:
    is_local = base_url is None and model.startswith(("ollama/", "ollama_chat/"))
    return is_local or is_on_this_machine(base_url) or has_price(model)
