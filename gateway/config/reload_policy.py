"""Merges a changed configuration into a running one, by the `reload` marker of each key.

A bot under `bots` follows the markers of its keys; adding or removing a bot needs a restart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from pydantic.fields import FieldInfo

from gateway.config.fields import Section, reload_mode
from gateway.config.yaml_document import KeyPath

S = TypeVar("S", bound=Section)


def in_effect(started: S, wanted: S) -> S:
    """Return what a process started with `started` uses once it has read `wanted`."""
    update = {
        name: _merge(field, getattr(started, name), getattr(wanted, name))
        for name, field in type(started).model_fields.items()
    }
    return started.model_copy(update=update)


def differences(old: Section, new: Section, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the keys whose values differ. A bot that only one side has is one key."""
    for name in type(old).model_fields:
        yield from _differences(getattr(old, name), getattr(new, name), (*path, name))


def _merge(field: FieldInfo, started: Any, wanted: Any) -> Any:
    if isinstance(started, Section):
        return in_effect(started, wanted)
    if _holds_sections(started):
        return {name: in_effect(section, wanted.get(name, section)) for name, section in started.items()}
    return wanted if reload_mode(field) == "live" else started


def _differences(old: Any, new: Any, path: KeyPath) -> Iterator[KeyPath]:
    if isinstance(old, Section):
        yield from differences(old, new, path)
    elif _holds_sections(old) or _holds_sections(new):
        for name in {**old, **new}:
            if name in old and name in new:
                yield from differences(old[name], new[name], (*path, name))
            else:
                yield (*path, name)
    elif old != new:
        yield path


def _holds_sections(value: Any) -> bool:
    """Tell whether `value` maps names to sections, as `bots` does."""
    return isinstance(value, Mapping) and any(isinstance(each, Section) for each in value.values())
