"""Settings that a running Hermes applies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gateway.config.docs import reference
from gateway.config.fields import Section, differences, in_effect
from gateway.config.schema import Config
from gateway.config.validate import dotted, keys

TOKEN = "1:AAA"


def _config(**sections: Any) -> Config:
    return Config.model_validate(sections)


def _changed(old: Config, new: Config) -> list[str]:
    return [dotted(place) for place in differences(old, new)]


def test_every_key_says_when_a_change_takes_effect() -> None:
    """If this fails: declare the new key with `setting(...)`."""
    unmarked = [
        f"{section.__name__}.{name}"
        for section in _sections(Config)
        for name, field in section.model_fields.items()
        if field.default_factory is None
        and not (isinstance(field.json_schema_extra, dict) and "reload" in field.json_schema_extra)
    ]
    assert unmarked == []


def _sections(section: type[Section]) -> Iterator[type[Section]]:
    yield section
    for field in section.model_fields.values():
        if isinstance(field.default_factory, type) and issubclass(field.default_factory, Section):
            yield from _sections(field.default_factory)


def test_the_reference_says_when_a_change_takes_effect() -> None:
    rows = {line.split("`")[1]: line for line in reference().splitlines() if line.startswith("| `")}
    assert rows.keys() == {key.name for key in keys()}
    assert "| at once |" in rows["limits.messages_per_minute"]
    assert "| restart |" in rows["model.name"]
    assert all(("| at once |" in rows[key.name]) == (key.reload == "live") for key in keys())


def test_only_what_may_change_does() -> None:
    """Other settings keep the values of the start."""
    started = _config(model={"name": "a"}, limits={"messages_per_minute": 30})
    wanted = _config(model={"name": "b"}, limits={"messages_per_minute": 5})
    now = in_effect(started, wanted)
    assert (now.model.name, now.limits.messages_per_minute) == ("a", 5)
    assert _changed(started, now) == ["limits.messages_per_minute"]
    assert _changed(now, wanted) == ["model.name"]


@pytest.mark.parametrize("name", ["work", "a.b", "bots"])
def test_more_bots_go_by_the_same_rules(name: str) -> None:
    """Bots with any name follow the rules key by key."""

    def bots(**bot: Any) -> Config:
        return _config(platforms={"telegram": {"bots": {name: bot}}})

    started, wanted = bots(token=TOKEN, admins=[1]), bots(token="2:BBB", admins=[2])
    now = in_effect(started, wanted)
    assert _changed(started, now) == [f"platforms.telegram.bots.{name}.admins"]
    assert _changed(now, wanted) == [f"platforms.telegram.bots.{name}.token"]


def test_bots_come_and_go_at_a_start() -> None:
    """A removed bot keeps its settings, and a new bot is missing, until the restart."""
    started = _config(platforms={"discord": {"bots": {"old": {"token": "x", "allowed_users": [7]}}}})
    wanted = _config(platforms={"discord": {"bots": {"new": {"token": "y"}}}})
    now = in_effect(started, wanted)
    assert now == started
    assert _changed(now, wanted) == ["platforms.discord.bots.old", "platforms.discord.bots.new"]


def test_secrets_are_compared_by_their_value() -> None:
    assert _changed(_config(model={"api_key": "a"}), _config(model={"api_key": "b"})) == ["model.api_key"]
    assert _changed(_config(model={"api_key": "a"}), _config(model={"api_key": "a"})) == []
