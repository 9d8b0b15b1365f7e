"""Building blocks of the configuration schema: field types, sections, and the `reload` marker of each key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticKnownError

from gateway.config.yaml_document import KeyPath

URL_PATTERN = r"^https?://[^/@\s]+(/[^@\s]*)?$"
"""Without user name and password: secrets have their own keys, which are never shown."""


def reject_booleans(value: object) -> object:
    """Reject true and false, which pydantic would accept as 1 and 0. YAML reads `yes` and `on` as true."""
    if isinstance(value, bool):
        raise PydanticKnownError("int_type")
    return value


def false_to_off(value: object) -> object:
    """Accept `off`, which YAML reads as false."""
    return "off" if value is False else value


Reload = Literal["live", "restart"]
"""When a change to the file takes effect: from the next message on, or at the next start."""


def setting(
    default: Any,
    description: str,
    *,
    within: tuple[float, float | None] | None = None,
    reload: Reload = "restart",
    validate_default: bool = False,
) -> Any:
    """Declare a key of the configuration. `within` is the range of a number that is never empty."""
    low, high = within or (None, None)
    return Field(
        default=default,
        description=description,
        ge=low,
        le=high,
        validate_default=validate_default,
        json_schema_extra={"reload": reload},
    )


def reload_mode(field: FieldInfo) -> Reload:
    """Return when a change of this key takes effect. A field declared without `setting` waits for a restart."""
    extra = field.json_schema_extra
    return "live" if isinstance(extra, dict) and extra.get("reload") == "live" else "restart"


Name = Annotated[str, Field(min_length=1)]
Whole = Annotated[int, BeforeValidator(reject_booleans)]
Number = Annotated[float, Field(allow_inf_nan=False), BeforeValidator(reject_booleans)]
Count = Annotated[int, Field(ge=1), BeforeValidator(reject_booleans)]
Port = Annotated[int, Field(ge=0, le=65535), BeforeValidator(reject_booleans)]
Url = Annotated[str, Field(pattern=URL_PATTERN)]


class Section(BaseModel):
    """A mapping in the file. Rejects unknown keys; immutable."""

    # Validators are built on first use: `hermes --help` never needs them.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_empty(cls, given: Any) -> Any:
        """Treat an empty value (`key:`, or an unset variable) as a missing one, so that the default applies."""
        if not isinstance(given, dict):
            return given
        return {
            key: value
            for key, value in given.items()
            if value not in (None, "") or not cls._accepts_empty(key)
        }

    @classmethod
    def _accepts_empty(cls, key: str) -> bool:
        field = cls.model_fields.get(key)
        return field is not None and (field.default is None or field.default_factory is not None)


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
