"""Which settings a running Hermes takes over."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.config.docs import page
from gateway.config.reload_policy import AFTER_RESTART, AT_ONCE, differences, in_effect
from gateway.config.schema import Config
from gateway.config.validate import dotted, keys

TOKEN = "1:AAA"


def _config(**sections: Any) -> Config:
    return Config.model_validate(sections)


def _changed(old: Config, new: Config) -> list[str]:
    return [dotted(place) for place in differences(old, new)]


def test_every_key_is_classified_once() -> None:
    """Whoever adds a setting says when it takes effect. If this fails: `gateway/config/reload_policy.py`."""
    known = {key.name for key in keys()}
    assert known - AT_ONCE - AFTER_RESTART == set(), "in neither list"
    assert AT_ONCE.isdisjoint(AFTER_RESTART), "in both lists"
    assert (AT_ONCE | AFTER_RESTART) - known == set(), "no such key"


def test_the_reference_says_when() -> None:
    """For each key."""
    rows = {line.split("`")[1]: line for line in page().splitlines() if line.startswith("| `")}
    assert {name for name, row in rows.items() if "| at once |" in row} == AT_ONCE
    assert {name for name, row in rows.items() if "| restart |" in row} == AFTER_RESTART


def test_only_what_may_change_does() -> None:
    """The rest stays as it was at the start."""
    started = _config(model={"name": "a"}, limits={"messages_per_minute": 30})
    wanted = _config(model={"name": "b"}, limits={"messages_per_minute": 5})
    now = in_effect(started, wanted)
    assert (now.model.name, now.limits.messages_per_minute) == ("a", 5)
    assert _changed(started, now) == ["limits.messages_per_minute"]
    assert _changed(now, wanted) == ["model.name"]


@pytest.mark.parametrize("name", ["work", "a.b", "bots"])
def test_more_bots_go_by_the_same_rules(name: str) -> None:
    """Key by key, whatever a bot is called."""

    def bots(**bot: Any) -> Config:
        return _config(platforms={"telegram": {"bots": {name: bot}}})

    started, wanted = bots(token=TOKEN, admins=[1]), bots(token="2:BBB", admins=[2])
    now = in_effect(started, wanted)
    assert _changed(started, now) == [f"platforms.telegram.bots.{name}.admins"]
    assert _changed(now, wanted) == [f"platforms.telegram.bots.{name}.token"]


def test_bots_come_and_go_at_a_start() -> None:
    """One that is gone from the file keeps what it had; one that is new is not there yet."""
    started = _config(platforms={"discord": {"bots": {"old": {"token": "x", "allowed_users": [7]}}}})
    wanted = _config(platforms={"discord": {"bots": {"new": {"token": "y"}}}})
    now = in_effect(started, wanted)
    assert now == started
    assert _changed(now, wanted) == ["platforms.discord.bots.old", "platforms.discord.bots.new"]


def test_secrets_are_compared_by_their_value() -> None:
    """Though no two of them can be told apart where they are shown."""
    assert _changed(_config(model={"api_key": "a"}), _config(model={"api_key": "b"})) == ["model.api_key"]
    assert _changed(_config(model={"api_key": "a"}), _config(model={"api_key": "a"})) == []
