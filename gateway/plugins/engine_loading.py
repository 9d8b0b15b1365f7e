"""Creates context engines from a plugin's code, one per conversation.

An engine is either exported, as a subclass of `ContextEngine`, or registered, as an instance, with `register(ctx)`. For
each conversation the class is instantiated, or `register` is called again.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from agent.context_engine import ContextEngine
from gateway.plugins.context import PluginContext, Register, Registrations, find_register
from gateway.plugins.plugin_folder import PluginFault, load_package, run_plugin_code

_HOST = "agent."
"""Engine classes of this package are imported as base classes, not exported."""


@dataclass(frozen=True, slots=True)
class EngineEnvironment:
    """The arguments that an engine's constructor can take."""

    context_length: int
    model: str
    home: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    """`context.options`."""

    @property
    def arguments(self) -> dict[str, Any]:
        return {
            "context_length": self.context_length,
            "model": self.model,
            "hermes_home": str(self.home),
            # A copy, because conversations must not share it.
            "options": copy.deepcopy(dict(self.options)),
        }


class OptionsRejected(PluginFault):
    """The engine rejects `context.options`: an error in the configuration."""

    @classmethod
    def none_accepted(cls, engine: str) -> OptionsRejected:
        return cls(
            f"context.options: the engine `{engine}` takes none; empty them, or choose the engine they are for."
        )


@dataclass(frozen=True, slots=True)
class EngineCode:
    """A factory of engines, and the plugin's other registrations."""

    make: Callable[[], ContextEngine]
    registrations: Registrations = field(default_factory=Registrations)
    notices: Sequence[str] = ()
    """Warnings about the folder, for the owner."""


def load_engine_folder(name: str, folder: Path, environment: EngineEnvironment) -> EngineCode:
    """Load the engine in a folder. A registered engine takes precedence over an exported one. Raises PluginFault."""
    module = load_package(folder)
    offered = Registrations()
    if register := find_register(module):
        offered = PluginContext(name, folder, environment.home).call_register(register)
        if offered.engine:
            return replace(load_registered_engine(name, folder, register, environment), registrations=offered)
    return EngineCode(
        partial(_make_checked, _exported_maker(name, module, folder, environment), name, folder, environment),
        offered,
    )


def load_registered_engine(
    name: str, folder: Path, register: Register, environment: EngineEnvironment
) -> EngineCode:
    """Create engines by calling `register` again, ignoring its other registrations. Raises PluginFault."""

    def register_again() -> ContextEngine:
        offered = PluginContext(name, folder, environment.home).call_register(register)
        if offered.engine is None:
            raise PluginFault("`register(ctx)` registered an engine once, but not when it was called again.")
        return offered.engine

    if environment.options:
        raise OptionsRejected.none_accepted(name)
    first = register_again()
    make = register_again
    if register_again() is first:
        # The module created one instance. Conversations must not share it, so each gets a copy.
        make = _copies_of(first, folder)
    return EngineCode(partial(_make_checked, make, name, folder, environment))


def _copies_of(engine: ContextEngine, folder: Path) -> Callable[[], ContextEngine]:
    untouched = run_plugin_code(lambda: copy.deepcopy(engine), folder)
    return lambda: run_plugin_code(lambda: copy.deepcopy(untouched), folder)


def _make_checked(
    make: Callable[[], ContextEngine], name: str, folder: Path, environment: EngineEnvironment
) -> ContextEngine:
    """Create an engine, check its name and tell it the context window."""
    engine = make()
    if (found := _name(engine, folder)) != name:
        raise PluginFault(_name_mismatch(name, [found]))
    if run_plugin_code(lambda: engine.context_length, folder) != environment.context_length:
        # Created with another window, or without one.
        run_plugin_code(lambda: engine.update_model(environment.model, environment.context_length), folder)
    return engine


def _instance(cls: type[ContextEngine], folder: Path, environment: EngineEnvironment) -> ContextEngine:
    taken = _accepted_arguments(cls, environment.arguments)
    try:
        return run_plugin_code(lambda: cls(**taken), folder)
    except PluginFault as fault:
        # Subclasses of ValueError, such as UnicodeDecodeError, are bugs, not rejected options.
        if "options" in taken and type(fault.__cause__) is ValueError:
            raise OptionsRejected(str(fault.__cause__)) from fault
        raise


def _accepted_arguments(cls: type, offered: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that the constructors accept; `**kwargs` passes on to the next base class."""
    taken: dict[str, Any] = {}
    for base in cls.__mro__:
        if base is object or "__init__" not in vars(base):
            continue
        constructor = vars(base)["__init__"]
        parameters = inspect.signature(constructor).parameters
        taken |= {name: value for name, value in offered.items() if name in parameters}
        if all(parameter.kind is not inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
            break
    return taken


def _exported_maker(
    name: str, module: ModuleType, folder: Path, environment: EngineEnvironment
) -> Callable[[], ContextEngine]:
    """Return the factory of the exported class with this name. A package may export other classes, too."""
    names = []
    for cls in _exported(module):
        make = partial(_instance, cls, folder, environment)
        names.append(_name(make(), folder))
        if names[-1] == name:
            if environment.options and "options" not in _accepted_arguments(cls, environment.arguments):
                raise OptionsRejected.none_accepted(name)
            return make
    raise PluginFault(
        _name_mismatch(name, names)
        if names
        else "it neither exports a subclass of agent.context_engine.ContextEngine nor registers an engine with "
        "`register(ctx)`."
    )


def _exported(module: ModuleType) -> list[type[ContextEngine]]:
    """Return the engine classes of the package, the most derived first, without imported base classes."""
    found = {
        value: None
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, ContextEngine)
        and not value.__module__.startswith(_HOST)
    }
    ordered = sorted(found, key=lambda cls: -len(cls.__mro__))
    # If all are abstract, creating one reports the missing method.
    return [cls for cls in ordered if not inspect.isabstract(cls)] or ordered


def _name(engine: ContextEngine, folder: Path) -> str:
    return run_plugin_code(lambda: engine.name, folder)


def _name_mismatch(wanted: str, found: list[str]) -> str:
    names = " and ".join(f"`{name}`" for name in found)
    return f"its engine calls itself {names}, but `context.engine` says `{wanted}`; `name` must be the same."
