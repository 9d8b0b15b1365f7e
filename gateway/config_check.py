"""What can be wrong with a configuration beyond its words: names of models, tools, plugins and engines that do not
exist."""

from __future__ import annotations

from collections.abc import Iterator

from agent.errors import ModelNotAvailable, UnknownTool
from agent.tool import discover
from agent.toolbox import choose_tools
from gateway.config.load import Loaded
from gateway.errors import ConfigError, UnknownEngine
from gateway.models.catalog import provider_problem
from gateway.models.configured import configured_names
from gateway.plugins import Plugins, check_engine, survey_plugins


def check_names(loaded: Loaded) -> None:
    """Raises EngineBroken, or ConfigError with every name that does not exist and its line. The code of plugins is run
    for that."""
    plugins, _ = survey_plugins(loaded.home, loaded.config.plugins.enabled)
    problems = [*_models(loaded), *_tools(loaded, plugins), *_engine(loaded, plugins)]
    if problems:
        raise ConfigError(problems=problems)


def _models(loaded: Loaded) -> Iterator[str]:
    model = loaded.config.model
    try:
        configured_names(model)
    except ModelNotAvailable as error:
        yield f"{loaded.place_of('model.name')}: model: {error.detail}"
    named = [("model.name", model.name, model.base_url)]
    named += [("model.fallbacks", each.name, each.base_url or model.base_url) for each in model.fallbacks]
    for key, name, base_url in named:
        if base_url is None and (problem := provider_problem(name)):
            yield f"{loaded.place_of(key)}: {key}: {problem}"


def _tools(loaded: Loaded, plugins: Plugins) -> Iterator[str]:
    available = discover() | plugins.tools
    lists = {
        f"tools.platforms.{platform}": names for platform, names in loaded.config.tools.platforms.items()
    }
    for key, names in {"tools.enabled": loaded.config.tools.enabled, **lists}.items():
        for name in names:
            try:
                choose_tools(available, [name], {}, "")
            except UnknownTool as error:
                yield f"{loaded.place_of(key)}: {key}: {error.detail}"


def _engine(loaded: Loaded, plugins: Plugins) -> Iterator[str]:
    context = loaded.config.context
    try:
        check_engine(
            context.engine,
            home=loaded.home,
            plugins=plugins,
            options=context.options,
            options_at=loaded.place_of("context.options"),
        )
    except UnknownEngine as error:
        yield f"{loaded.place_of('context.engine')}: context.engine: {error.detail}"
    except ConfigError as error:
        yield from error.problems
