"""What can be wrong with a configuration beyond its words: names of tools, plugins and engines that do not exist."""

from __future__ import annotations

from agent.tool import discover
from agent.toolbox import choose_tools
from gateway.config.load import Loaded
from gateway.plugins import check_engine, survey_plugins


def check_names(loaded: Loaded) -> None:
    """Raises UnknownTool, UnknownEngine, EngineBroken or ConfigError. The code of plugins is run for that."""
    config = loaded.config
    plugins, _ = survey_plugins(loaded.home, config.plugins.enabled)
    choose_tools(discover() | plugins.tools, config.tools.enabled, config.tools.platforms, "")
    check_engine(
        config.context.engine,
        home=loaded.home,
        plugins=plugins,
        options=config.context.options,
        options_at=loaded.place_of("context.options"),
    )
