"""Building blocks of the configuration schema: field types, the `setting` helper, the `Section` base class."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticKnownError

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


def setting(default: Any, *, reload: Reload, description: str, validate_default: bool | None = None) -> Any:
    """Declare a key of the configuration."""
    return Field(
        default=default,
        description=description,
        validate_default=validate_default,
        json_schema_extra={"reload": reload},
    )


def reload_mode(field: FieldInfo) -> Reload:
    """Return when a change of this key takes effect. A field declared without `setting` waits for a restart."""
    extra = field.json_schema_extra
    return "live" if isinstance(extra, dict) and extra.get("reload") == "live" else "restart"


Name = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1), BeforeValidator(reject_booleans)]
Steps = Annotated[int, Field(ge=1, le=1000), BeforeValidator(reject_booleans)]
Port = Annotated[int, Field(ge=0, le=65535), BeforeValidator(reject_booleans)]
Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False), BeforeValidator(reject_booleans)]
TailShare = Annotated[float, Field(ge=0.10, le=0.80, allow_inf_nan=False), BeforeValidator(reject_booleans)]
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
