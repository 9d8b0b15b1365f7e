"""Selecting a context engine by name."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agent.context.engine_runner import call_accepted
from agent.context_compressor import ContextCompressor
from gateway.config.loader import LoadedConfig
from gateway.config.schema import Config
from gateway.errors import EngineBroken, UnknownEngine
from gateway.plugins.engines import available_engines, check_engine, engine_factory, engine_problem
from gateway.plugins.loader import Plugins, load_plugins
from tests.support.foreign_plugins import (
    CONSTRUCTOR,
    ENGINE,
    REGISTER,
    make_engines,
    write,
    write_engine,
    write_plugin,
)

USER = {"role": "user", "content": "hello"}


def test_an_exported_subclass(private_home: Path) -> None:
    """Each conversation gets an instance that knows the model's window."""
    write_engine(private_home, ENGINE)
    one, other = make_engines(private_home, 2)
    one.compress([USER])
    assert (one.name, one.context_length, one.threshold_tokens) == ("mine", 8_000, 4_000)
    assert vars(one)["seen"] == [USER] and vars(other)["seen"] == []


def test_relative_imports_between_modules(private_home: Path) -> None:
    """Late imports work, too, while other plugins have modules of the same names."""
    code = "from .engine import Engine as MyEngine\n"
    late = (
        ENGINE
        + "\n    def get_tool_schemas(self):\n        from . import tools\n        return tools.SCHEMAS\n"
    )
    for name in ("mine", "yours"):
        engine = late.replace('"mine"', f'"{name}"')
        write_engine(
            private_home, code, name, engine=engine, tools=f"SCHEMAS = [{{'name': '{name}_grep'}}]\n"
        )
    engines = [make_engines(private_home, name=name)[0] for name in ("mine", "yours")]
    assert [engine.get_tool_schemas()[0]["name"] for engine in engines] == ["mine_grep", "yours_grep"]


def test_a_registered_instance(private_home: Path) -> None:
    """`register` is called for each conversation, and the model's window replaces the engine's number."""
    write_engine(private_home, ENGINE + REGISTER)
    one, other = make_engines(private_home, 2)
    assert one is not other
    assert (one.context_length, one.threshold_tokens) == (8_000, 4_000)


def test_an_instance_made_when_the_module_is_loaded(private_home: Path) -> None:
    """`register` returns the same object at each call, but conversations share nothing."""
    shared = "\nENGINE = Engine()\ndef register(ctx):\n    ctx.register_context_engine(ENGINE)\n"
    write_engine(private_home, ENGINE + shared)
    one, other = make_engines(private_home, 2)
    one.compress([USER])
    assert vars(other)["seen"] == []


def test_an_engine_of_a_general_plugin(private_home: Path) -> None:
    """Its tools, commands and hooks are registered once."""
    beside = (
        "\nfrom agent.tool import ToolContext, tool\nfrom gateway.commands import Command\n"
        "@tool()\nasync def shout(ctx: ToolContext, text: str) -> str:\n    return text.upper()\n"
        "async def run(context, rest):\n    return rest\n"
        "def register(ctx):\n"
        "    ctx.register_context_engine(Engine())\n"
        "    ctx.register_tool(shout)\n"
        "    ctx.register_command(Command('shout', 'louder', run))\n"
    )
    write_plugin(private_home, ENGINE + beside)
    plugins = load_plugins(private_home, ["acme"])
    assert len(set(map(id, make_engines(private_home, 3, plugins=plugins)))) == 3
    assert list(plugins.tools) == ["shout"]
    assert [command.name for command in plugins.commands] == ["shout"]


@pytest.mark.parametrize("engine_line", ["ctx.register_context_engine(Engine())", "pass"])
async def test_an_engine_in_a_folder_may_register_more(private_home: Path, engine_line: str) -> None:
    beside = (
        f"\ncalls = []\ndef register(ctx):\n    {engine_line}\n"
        "    ctx.register_hook('turn_done', lambda message_id: calls.append(message_id))\n"
        "    Engine.calls = calls\n"
    )
    write_engine(private_home, ENGINE + beside)
    plugins = Plugins()
    *_, engine = await asyncio.to_thread(make_engines, private_home, 3, plugins=plugins)
    await plugins.hooks.emit("turn_done", conversation_id="c", message_id="m", platform="web", stopped=False)
    assert type(engine).__dict__["calls"] == ["m"]


def test_a_check_finds_a_name_that_is_taken(private_home: Path) -> None:
    """`hermes doctor` reports what the start would refuse."""
    beside = (
        "\nfrom gateway.commands import Command\nasync def run(context, rest):\n    return rest\n"
        "def register(ctx):\n    ctx.register_command(Command('reset', 'mine', run))\n"
    )
    write_engine(private_home, ENGINE + beside)
    with pytest.raises(EngineBroken, match="a command /reset already exists"):
        check_engine("mine", LoadedConfig(Config(), None, private_home), Plugins())


@pytest.mark.parametrize(
    ("constructor", "passed"),
    [
        ("def __init__(self): pass", {}),
        ("def __init__(self, **kwargs): self.got = kwargs", {}),
        ("def __init__(self, context_length): self.got = {'window': context_length}", {"window": 8_000}),
        ("def __init__(self, *, model, hermes_home): self.got = {'model': model}", {"model": "any/model"}),
    ],
)
def test_a_constructor_gets_what_it_declares(private_home: Path, constructor: str, passed: object) -> None:
    """`update_model` tells the window to a constructor that does not take it."""
    write_engine(private_home, ENGINE.replace(CONSTRUCTOR, f"    {constructor}\n"))
    (engine,) = make_engines(private_home)
    assert vars(engine).get("got", {}) == passed
    assert (engine.context_length, engine.threshold_tokens) == (8_000, 4_000)


def test_a_constructor_that_hands_on_what_it_gets(private_home: Path) -> None:
    """`**kwargs` accepts what the next constructor accepts."""
    code = (
        "from agent.context_compressor import ContextCompressor\n"
        "class Mine(ContextCompressor):\n    name = 'mine'\n"
        "    def __init__(self, **kwargs):\n        super().__init__(protect_last_n=3, **kwargs)\n"
    )
    write_engine(private_home, code)
    (engine,) = make_engines(private_home)
    assert isinstance(engine, ContextCompressor)
    assert (engine.context_length, engine.protect_last_n) == (8_000, 3)


def test_methods_with_fewer_arguments(private_home: Path) -> None:
    """The host passes only declared arguments."""
    code = (
        ENGINE.replace(", current_tokens=None, focus_topic=None", "").replace(", prompt_tokens=None", "")
        + "    def on_session_start(self, session_id):\n        self.seen.append(session_id)\n"
        + "    def handle_tool_call(self, name, args):\n        return name\n"
        + "    def update_model(self, model, context_length):\n        self.context_length = context_length\n"
    )
    write_engine(private_home, code)
    (engine,) = make_engines(private_home)
    call_accepted(engine.on_session_start, "s1", platform="web", hermes_home="h", conversation_id="c")
    assert call_accepted(engine.should_compress, prompt_tokens=5) is False
    assert call_accepted(engine.compress, [USER], current_tokens=1, focus_topic="x") == [USER]
    assert call_accepted(engine.handle_tool_call, "grep", {}, messages=[]) == "grep"
    call_accepted(engine.update_model, "m", 500, base_url="", api_key="", provider="")
    assert (vars(engine)["seen"], engine.context_length) == (["s1", USER], 500)


def test_of_several_engines_the_one_with_the_name(private_home: Path) -> None:
    """Imported engine classes do not count."""
    code = (
        f"{ENGINE}\nfrom agent.context_compressor import ContextCompressor\n"
        "class Other(Engine):\n    name = 'other'\n"
        "class Mine(Engine):\n    pass\n"
        "class Draft(ContextEngine):\n    pass\n"
    )
    write_engine(private_home, code)
    assert type(make_engines(private_home)[0]).__name__ == "Mine"
    write_engine(
        private_home, code.replace('"mine"', '"base"').replace("    pass", "    name = 'top'"), "base"
    )
    assert type(make_engines(private_home, name="base")[0]).__name__ == "Engine"


def test_the_default_is_always_built_in(private_home: Path) -> None:
    write_engine(private_home, ENGINE.replace("mine", "compressor"), "compressor")
    built_in = ContextCompressor(8_000)
    make = engine_factory(
        "compressor", home=private_home, plugins=Plugins(), compressor=lambda: built_in, context_length=8_000
    )
    assert make() is built_in
    (hidden,) = [info for info in available_engines(private_home, Plugins(), active="compressor")
                 if info.origin == "home"]  # fmt: skip
    assert not hidden.active and hidden.problem == "hidden: the one in Hermes itself comes first."


def test_the_order_of_places(private_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The project and its namespace, the state directory, then plugins."""
    label = "\n    label = '{}'\n"
    write_plugin(private_home, ENGINE + label.format("plugin") + REGISTER)
    plugins = load_plugins(private_home, ["acme"])

    def label_of_chosen() -> str:
        return str(vars(type(make_engines(private_home, plugins=plugins)[0]))["label"])

    assert label_of_chosen() == "plugin"
    write_engine(private_home, ENGINE + label.format("home"))
    assert label_of_chosen() == "home"
    wheel = tmp_path / "site-packages"
    write(wheel / "plugins" / "context_engine" / "mine", ENGINE + label.format("wheel"))
    monkeypatch.syspath_prepend(wheel)
    monkeypatch.delitem(sys.modules, "plugins", raising=False)
    assert label_of_chosen() == "wheel"
    listed = available_engines(private_home, plugins, active="mine")
    found = [(info.origin, info.active, bool(info.problem)) for info in listed if info.name == "mine"]
    assert found == [("project", True, False), ("home", False, True), ("plugin acme", False, True)]


@pytest.mark.parametrize(
    ("code", "reason", "story"),
    [
        ("import no_such_library\n", "No module named 'no_such_library'", '__init__.py", line 1'),
        ("class Engine(:\n", "SyntaxError", "class Engine(:"),
        ("raise SystemExit(0)\n", "SystemExit", "raise SystemExit(0)"),
        (ENGINE.replace("mine", "other"), "calls itself `other`, but `context.engine` says `mine`", ""),
        (ENGINE.replace("mine", "other") + REGISTER, "calls itself `other`", ""),
        ("engine = object()\n", "neither exports a subclass", ""),
        ("def register(ctx):\n    pass\n", "neither exports a subclass", ""),
        ("async def register(ctx):\n    pass\n", "must be an ordinary function", ""),
        ("def register(ctx):\n    ctx.register_context_engine(object())\n", "takes an instance of", "in register"),
        (f"{ENGINE}\ndef register(ctx):\n    ctx.register_context_engine(Engine)\n", "not the class", "in register"),
        ("from agent.context_engine import ContextEngine\nclass E(ContextEngine):\n    name = 'mine'\n",
         "abstract", "compress"),
        (f"{ENGINE}\nclass Mine(Engine):\n    def __init__(self):\n        self.x = 1 / 0\n",
         "ZeroDivisionError", "1 / 0"),
        (f"{ENGINE}\nclass Mine(Engine):\n    def __init__(self, secret):\n        pass\n", "secret", ""),
        (f"{ENGINE}\nimport threading\nE = Engine()\nE.lock = threading.Lock()\n"
         "def register(ctx):\n    ctx.register_context_engine(E)\n", "lock", ""),
    ],
)  # fmt: skip
def test_a_broken_engine_is_a_start_up_error(private_home: Path, code: str, reason: str, story: str) -> None:
    """The message names the folder, the searched places and the line."""
    folder = write_engine(private_home, code)
    with pytest.raises(EngineBroken) as raised:
        make_engines(private_home)
    text = str(raised.value)
    assert raised.value.exit_code == 2
    assert reason in text and story in text
    assert f"`mine` in {folder}" in text and f"\n  {folder.parent}\n" in text
    assert "importlib" not in text and "engine_code.py" not in text
    (listed,) = [
        each for each in available_engines(private_home, Plugins(), active="") if each.name == "mine"
    ]
    assert listed.problem.startswith("broken: ") and reason in listed.problem


def test_half_loaded_modules_are_forgotten(private_home: Path) -> None:
    write_engine(private_home, "from . import half_loaded\nimport no_such_library\n", half_loaded="")
    with pytest.raises(EngineBroken):
        make_engines(private_home)
    assert not [name for name in sys.modules if name.endswith("half_loaded")]


def test_a_folder_without_code(private_home: Path) -> None:
    (private_home / "plugins" / "context_engine" / "mine").mkdir(parents=True)
    with pytest.raises(EngineBroken, match=r"it has no __init__\.py"):
        make_engines(private_home)


def test_an_unknown_engine_is_a_start_up_error(private_home: Path) -> None:
    """The message has the nearest name, the searched folders and the disabled plugins."""
    write_plugin(private_home, ENGINE + REGISTER)
    with pytest.raises(UnknownEngine) as raised:
        make_engines(private_home, name="slidingwindow")
    text = str(raised.value)
    assert raised.value.exit_code == 2
    assert "Did you mean `sliding_window`?" in text and "Not enabled: acme." in text
    assert f"\n  {private_home / 'plugins' / 'context_engine'}\n" in text
    assert f"\n  {Path(__file__).parents[4] / 'plugins' / 'context_engine'}\n" in text


@pytest.mark.parametrize("name", ["../mine", "", ".", "context_engine", "__pycache__"])
def test_a_name_never_leads_elsewhere(private_home: Path, name: str) -> None:
    write(private_home / "plugins" / "mine", ENGINE)
    with pytest.raises(UnknownEngine):
        make_engines(private_home, name=name)


def test_an_engine_that_fails_later_says_so(private_home: Path) -> None:
    """The error names the engine."""
    limited = "\nmade = []\nclass Mine(Engine):\n    def __init__(self):\n        made.append(1)\n"
    write_engine(private_home, ENGINE + limited + "        assert len(made) < 4, 'no more'\n")
    with pytest.raises(EngineBroken, match="no more"):
        make_engines(private_home, 5)


def test_two_engines_of_one_folder(private_home: Path) -> None:
    """The warning is logged once."""
    two = "    ctx.register_context_engine(Second())\n\nclass Second(Engine):\n    name = 'second'\n"
    write_engine(private_home, ENGINE + REGISTER + two)
    with capture_logs() as logs:
        engines = make_engines(private_home, 3)
    assert {engine.name for engine in engines} == {"mine"}
    assert [(line["event"], line["engine"], line["log_level"]) for line in logs] == [
        ("plugin.engine_refused", "second", "warning")
    ]


@pytest.mark.parametrize(
    ("body", "finding"),
    [
        ("return None", ""),
        ("return ''", ""),
        ("return 'the disk is full'", "the disk is full"),
        ("raise ValueError('a bug')", "it cannot say whether it works: ValueError: a bug"),
        ("raise SystemExit(3)", "it cannot say whether it works: SystemExit: 3"),
        ("raise KeyboardInterrupt", "it cannot say whether it works: KeyboardInterrupt: "),
        ("next(iter(()))", "it cannot say whether it works: StopIteration: "),
        ("__import__('threading').Event().wait()", "it cannot say whether it works: problem() did not return within"),
    ],
)  # fmt: skip
def test_the_problem_of_an_engine_is_a_finding(private_home: Path, body: str, finding: str) -> None:
    """`problem()` may raise or hang."""
    write_engine(private_home, f"{ENGINE}\n    def problem(self):\n        {body}\n")
    found = engine_problem("mine", home=private_home, plugins=Plugins(), seconds=0.2)
    assert found.startswith(finding) and bool(found) == bool(finding)


def test_an_engine_that_does_not_exist_has_a_problem(private_home: Path) -> None:
    found = engine_problem("mine", home=private_home, plugins=Plugins())
    assert found.startswith("There is no engine `mine`.")
