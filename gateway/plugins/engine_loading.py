"""From a plugin's code to context engines, one for each conversation.

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
"""Engines from there are imported to build upon, not exported."""


@dataclass(frozen=True, slots=True)
class EngineEnvironment:
    """What an engine can be told when it is made."""

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
            # Conversations share nothing, whatever their engines do with it.
            "options": copy.deepcopy(dict(self.options)),
        }


class OptionsRejected(PluginFault):
    """`context.options` and the engine do not fit together: a matter for whoever wrote the configuration."""

    @classmethod
    def all_of_them(cls, engine: str) -> OptionsRejected:
        return cls(
            f"context.options: the engine `{engine}` takes none; empty them, or choose the engine they are for."
        )


@dataclass(frozen=True, slots=True)
class EngineCode:
    """A way to make engines, and what the plugin offered beside its engine."""

    make: Callable[[], ContextEngine]
    beside: Registrations = field(default_factory=Registrations)
    notices: Sequence[str] = ()
    """What the owner should know about the folder."""


def load_engine_folder(name: str, folder: Path, around: EngineEnvironment) -> EngineCode:
    """What `register(ctx)` registers goes before what is exported. Raises PluginFault."""
    module = load_package(folder)
    offered = Registrations()
    if register := find_register(module):
        offered = PluginContext(name, folder, around.home).offered_by(register)
        if offered.engine:
            return replace(load_registered_engine(name, folder, register, around), beside=offered)
    return EngineCode(
        partial(_make_checked, _exported_maker(name, module, folder, around), name, folder, around), offered
    )


def load_registered_engine(
    name: str, folder: Path, register: Register, around: EngineEnvironment
) -> EngineCode:
    """Calls `register` for the engine alone: what it offers beside it is left out. Raises PluginFault."""

    def register_again() -> ContextEngine:
        offered = PluginContext(name, folder, around.home).offered_by(register)
        if offered.engine is None:
            raise PluginFault("`register(ctx)` registered an engine once, but not when it was called again.")
        return offered.engine

    if around.options:
        raise OptionsRejected.all_of_them(name)
    first = register_again()
    make = register_again
    if register_again() is first:
        # It was made when the module was loaded. Conversations must not share it, so each gets a copy.
        make = _copies_of(first, folder)
    return EngineCode(partial(_make_checked, make, name, folder, around))


def _copies_of(engine: ContextEngine, folder: Path) -> Callable[[], ContextEngine]:
    untouched = run_plugin_code(lambda: copy.deepcopy(engine), folder)
    return lambda: run_plugin_code(lambda: copy.deepcopy(untouched), folder)


def _make_checked(
    make: Callable[[], ContextEngine], name: str, folder: Path, around: EngineEnvironment
) -> ContextEngine:
    """An engine that has the right name and knows the model's window."""
    engine = make()
    if (found := _name(engine, folder)) != name:
        raise PluginFault(_name_mismatch(name, [found]))
    if run_plugin_code(lambda: engine.context_length, folder) != around.context_length:
        # Registered with a number of its author's, or made without one.
        run_plugin_code(lambda: engine.update_model(around.model, around.context_length), folder)
    return engine


def _instance(cls: type[ContextEngine], folder: Path, around: EngineEnvironment) -> ContextEngine:
    taken = _accepted_arguments(cls, around.arguments)
    try:
        return run_plugin_code(lambda: cls(**taken), folder)
    except PluginFault as fault:
        # What derives from ValueError, such as a file that is not UTF-8, is an accident rather than an answer.
        if "options" in taken and type(fault.__cause__) is ValueError:
            raise OptionsRejected(str(fault.__cause__)) from fault
        raise


def _accepted_arguments(cls: type, offered: dict[str, Any]) -> dict[str, Any]:
    """`**kwargs` in a constructor stands for what the next constructor takes, and the last one takes nothing."""
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
    name: str, module: ModuleType, folder: Path, around: EngineEnvironment
) -> Callable[[], ContextEngine]:
    """Of the class that has the name. A package may export others, such as the one it is derived from."""
    names = []
    for cls in _exported(module):
        make = partial(_instance, cls, folder, around)
        names.append(_name(make(), folder))
        if names[-1] == name:
            if around.options and "options" not in _accepted_arguments(cls, around.arguments):
                raise OptionsRejected.all_of_them(name)
            return make
    raise PluginFault(
        _name_mismatch(name, names)
        if names
        else "it neither exports a subclass of agent.context_engine.ContextEngine nor registers an engine with "
        "`register(ctx)`."
    )


def _exported(module: ModuleType) -> list[type[ContextEngine]]:
    """The engines of the package, the most derived first: not those it only imports to build upon."""
    found = {
        value: None
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, ContextEngine)
        and not value.__module__.startswith(_HOST)
    }
    ordered = sorted(found, key=lambda cls: -len(cls.__mro__))
    # Where all are abstract, making one says which method is missing.
    return [cls for cls in ordered if not inspect.isabstract(cls)] or ordered


def _name(engine: ContextEngine, folder: Path) -> str:
    return run_plugin_code(lambda: engine.name, folder)


def _name_mismatch(wanted: str, found: list[str]) -> str:
    names = " and ".join(f"`{name}`" for name in found)
    return f"its engine calls itself {names}, but `context.engine` says `{wanted}`; `name` must be the same."
