"""Plugins by other authors, written into folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent.context_engine import ContextEngine
from gateway.plugins.engines import engine_factory
from gateway.plugins.loader import Plugins
from tests.fakes.openai.server import FakeOpenAI

CONSTRUCTOR = """\
    def __init__(self, context_length=0):
        self.context_length = context_length
        self.threshold_tokens = context_length // 2
        self.seen = []
"""

ENGINE = f"""
from agent.context_engine import ContextEngine


class Engine(ContextEngine):
    name = "mine"

{CONSTRUCTOR}
    def update_from_response(self, usage):
        self.last_prompt_tokens = usage["prompt_tokens"]

    def should_compress(self, prompt_tokens=None):
        return False

    def compress(self, messages, current_tokens=None, focus_topic=None):
        self.seen += messages
        return messages
"""

_TAKES_OPTIONS = """\
    def __init__(self, context_length=0, options=None):
        self.context_length = context_length
        self.options = options
        if unknown := set(options) - {"depth", "names"}:
            raise ValueError(f"`context.options` has no `{unknown.pop()}`.")
"""
WITH_OPTIONS = ENGINE.replace(CONSTRUCTOR, _TAKES_OPTIONS)

REGISTER = """

def register(ctx):
    ctx.register_context_engine(Engine(context_length=200000))
"""

MANIFEST = "name: any\ndescription: Made by a stranger.\nversion: 1.2\n"


def write(folder: Path, code: str, *, manifest: str | None = MANIFEST, **modules: str) -> Path:
    """Write a plugin folder; `modules` are files beside its `__init__.py`."""
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(code)
    if manifest is not None:
        (folder / "plugin.yaml").write_text(manifest)
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def write_engine(home: Path, code: str, name: str = "mine", **modules: str) -> Path:
    return write(home / "plugins" / "context_engine" / name, code, **modules)


def write_plugin(home: Path, code: str, name: str = "acme", **how: str | None) -> Path:
    return write(home / "plugins" / name, code, **how)  # type: ignore[arg-type]


def no_compressor() -> ContextEngine:
    raise AssertionError("an engine was replaced by the built-in one")


def make_engines(
    home: Path, count: int = 1, *, name: str = "mine", plugins: Plugins | None = None, window: int = 8_000
) -> list[ContextEngine]:
    """Make `count` engines as the gateway does, one per conversation."""
    make = engine_factory(
        name,
        home=home,
        plugins=plugins or Plugins(),
        compressor=no_compressor,
        context_length=window,
        model="any/model",
    )
    return [make() for _ in range(count)]


def engine_config(server: FakeOpenAI, engine: str, **more: Any) -> dict[str, Any]:
    model = {"name": "openai/test-model", "base_url": server.base_url, "api_key": server.api_key}
    return {
        "model": {**model, "context_length": 2_000},
        "tools": {"enabled": []},
        "context": {"engine": engine},
        **more,
    }
