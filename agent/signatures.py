"""Calls other people's functions with what they declare, and with nothing else.

An engine or a hook written for fewer optional arguments than we offer works unchanged, also when we offer more.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def call_accepted(function: Callable[..., T], *given: Any, **offered: Any) -> T:
    """Passes as many of `given` as the function takes, and of `offered` what it takes by name."""
    parameters = inspect.signature(function).parameters.values()
    if all(parameter.kind is not inspect.Parameter.VAR_POSITIONAL for parameter in parameters):
        given = given[: sum(parameter.kind in _BY_PLACE for parameter in parameters)]
    return function(*given, **accepted_kwargs(function, offered))


def accepted_kwargs(function: Callable[..., Any], offered: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the offer that the function takes; all of it where it has `**kwargs`."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return dict(offered)
    names = {parameter.name for parameter in parameters if parameter.kind in _BY_NAME}
    return {name: value for name, value in offered.items() if name in names}
