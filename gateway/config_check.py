"""What can be wrong with a configuration beyond its words: names of models, tools, plugins and engines that do not
exist."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent.errors import ModelNotAvailable, UnknownTool
from agent.tool import discover
from agent.toolbox import choose_tools
from gateway.config.load import Loaded, provider_keys
from gateway.errors import ConfigError, UnknownEngine
from gateway.models.auxiliary import auxiliary_spec
from gateway.models.catalog import provider_problem
from gateway.models.choose import missing_key
from gateway.models.configured import configured_names
from gateway.plugins import PluginInfo, Plugins, check_engine, survey_plugins


def check_names(loaded: Loaded, *, keys: bool = False, engine: bool = True) -> None:
    """Raises EngineBroken, or ConfigError with every name that does not exist and its line. The code of plugins is run
    for that. With `keys`, a missing key of the model for summaries counts, too; without `engine`, the engine is not
    checked."""
    plugins, every = survey_plugins(loaded.home, loaded.config.plugins.enabled)
    problems = [
        *_models(loaded),
        *_auxiliary(loaded, keys=keys),
        *_plugins(loaded, every),
        *_tools(loaded, plugins),
        *(_engine(loaded, plugins) if engine else ()),
    ]
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


def _plugins(loaded: Loaded, every: Sequence[PluginInfo]) -> Iterator[str]:
    for plugin in every:
        if plugin.enabled and plugin.problem:
            yield f"{loaded.place_of('plugins.enabled')}: plugins.enabled: {plugin.name}: {plugin.problem}"


def _auxiliary(loaded: Loaded, *, keys: bool) -> Iterator[str]:
    key = "auxiliary.compression"
    config = loaded.config.auxiliary.compression
    place = loaded.place_of(f"{key}.model" if config.model else f"{key}.provider")
    try:
        spec = auxiliary_spec(config, loaded.config.model)
    except ModelNotAvailable as error:
        yield f"{place}: {key}: {error.detail}"
        return
    if spec is None:
        return
    if spec.base_url is None and (problem := provider_problem(spec.name)):
        yield f"{place}: {key}: {problem}"
    elif keys and (variable := missing_key(spec, provider_keys())):
        yield f"{place}: {key}: {spec.name} needs {variable}, which is not set."


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
        where = loaded.place_of("context.engine")
        until = "Until that is mended, Hermes runs with the built-in `compressor`."
        yield f"{where}: context.engine: {error.detail}\n{until}"
    except ConfigError as error:
        yield from error.problems
