"""`context.options` and the engine that gets them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agent.context_engine import ContextEngine
from gateway.cli import Options
from gateway.cli.config_commands import config
from gateway.cli.doctor_checks_agent import plugins as doctor_on_plugins
from gateway.cli.plugins import plugins
from gateway.config.loader import load
from gateway.errors import ConfigError, EngineBroken
from gateway.plugins.engines import available_engines, engine_factory
from gateway.plugins.loader import Plugins, load_plugins
from tests.support.foreign_plugins import (
    ENGINE,
    REGISTER,
    WITH_OPTIONS,
    no_compressor,
    write_engine,
    write_plugin,
)


def new_engine(home: Path, options: Mapping[str, Any] | None = None, **more: Any) -> ContextEngine:
    return factory(home, options, **more)()


def factory(home: Path, options: Mapping[str, Any] | None = None, **more: Any) -> Any:
    given = {"home": home, "plugins": Plugins(), "compressor": no_compressor, "context_length": 8_000} | more
    return engine_factory("mine", options=options, options_position="hermes.yaml:7", **given)


@pytest.fixture
def file(private_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration that has options on its fourth line, and no other one in the current directory."""
    private_home.mkdir(exist_ok=True)
    monkeypatch.chdir(private_home)
    path = private_home / "hermes.yaml"
    path.write_text("# mine\ncontext:\n  engine: mine\n  options:\n    depth: 3\n")
    return path


def run(command: Any, *arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, obj=Options(None))


def test_an_engine_gets_what_it_declares(private_home: Path) -> None:
    """Each conversation gets a copy; without options the argument is an empty mapping."""
    write_engine(private_home, WITH_OPTIONS)
    make = factory(private_home, {"depth": 3, "names": ["a"]})
    one, other = make(), make()
    vars(one)["options"]["names"].append("b")
    assert vars(other)["options"] == {"depth": 3, "names": ["a"]}
    assert vars(new_engine(private_home))["options"] == {}


@pytest.mark.parametrize("code", [ENGINE, WITH_OPTIONS + REGISTER.replace("200000", "1, options={}")])
def test_unused_options_are_an_error_in_the_configuration(private_home: Path, code: str) -> None:
    """The message names the line, without a traceback."""
    write_engine(private_home, code)
    with pytest.raises(
        ConfigError, match=r"hermes\.yaml:7: context\.options: the engine `mine` takes none; "
    ):
        factory(private_home, {"depth": 3})
    assert new_engine(private_home).name == "mine"


def test_a_plugin_that_registers_an_engine_takes_no_options(private_home: Path) -> None:
    write_plugin(private_home, ENGINE + REGISTER)
    loaded = load_plugins(private_home, ["acme"])
    with pytest.raises(ConfigError, match="takes none"):
        factory(private_home, {"depth": 3}, plugins=loaded)


def test_the_built_in_engine_has_settings_of_its_own(private_home: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"hermes.yaml:7: context.options: the engine `compressor` takes none"
    ):
        engine_factory(
            "compressor",
            home=private_home,
            plugins=Plugins(),
            compressor=no_compressor,
            context_length=8_000,
            options={"depth": 3},
            options_position="hermes.yaml:7",
        )


def test_an_engine_refuses_in_its_own_words(private_home: Path) -> None:
    """Only a plain ValueError is a refusal; its subclasses are bugs with a traceback."""
    write_engine(private_home, WITH_OPTIONS)
    with pytest.raises(ConfigError) as refused:
        factory(private_home, {"dept": 3})
    assert str(refused.value).endswith("hermes.yaml:7: `context.options` has no `dept`.")
    accident = WITH_OPTIONS.replace("raise ValueError(f", "b'\\xff'.decode(); (")
    write_engine(private_home, accident.replace('"mine"', '"torn"'), "torn")
    with pytest.raises(EngineBroken, match="UnicodeDecodeError"):
        engine_factory(
            "torn",
            home=private_home,
            plugins=Plugins(),
            compressor=no_compressor,
            context_length=8_000,
            options={"dept": 3},
        )


def test_a_value_error_of_an_engine_without_options_is_a_fault(private_home: Path) -> None:
    write_engine(private_home, f"{ENGINE}\nclass Mine(Engine):\n    def __init__(self):\n        int('x')\n")
    with pytest.raises(EngineBroken, match="invalid literal"):
        factory(private_home)


def test_config_check_asks_the_engine(private_home: Path, file: Path) -> None:
    write_engine(private_home, WITH_OPTIONS)
    assert run(config, "check").exit_code == 0
    file.write_text(file.read_text().replace("depth", "dept"))
    checked = run(config, "check")
    assert checked.exit_code == 2
    assert f"{file}:4: `context.options` has no `dept`." in checked.stderr
    (found,) = doctor_on_plugins(load(file))
    assert found.level == "fail" and "has no `dept`" in found.text


def test_use_leaves_a_file_alone_that_the_engine_would_refuse(private_home: Path, file: Path) -> None:
    """The options are for another engine."""
    write_engine(private_home, WITH_OPTIONS)
    before = file.read_text()
    for name in ("compressor", "sliding_window"):
        refused = run(plugins, "use", name).exception
        assert isinstance(refused, ConfigError)
        assert f"{file}:4: context.options: the engine `{name}` takes none" in str(refused)
    assert file.read_text() == before
    file.write_text(before.replace("    depth: 3\n", ""))
    assert run(plugins, "use", "sliding_window").exit_code == 0
    assert load(file).config.context.engine == "sliding_window"


def test_the_list_tries_the_active_engine_with_its_options(private_home: Path) -> None:
    """The other engines are tested without options."""
    write_engine(private_home, WITH_OPTIONS)
    write_engine(private_home, WITH_OPTIONS.replace('"mine"', '"other"'), "other")
    listed = available_engines(private_home, Plugins(), active="mine", options={"dept": 3})
    problems = {info.name: info.problem for info in listed}
    assert problems["mine"] == "refused: `context.options` has no `dept`."
    assert problems["other"] == problems["compressor"] == ""
    (built_in, *_) = available_engines(private_home, Plugins(), active="compressor", options={"a": 1})
    assert built_in.problem.startswith("refused: context.options: the engine `compressor` takes none")


def test_a_value_from_a_variable_is_not_shown(
    private_home: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTEBOOK", "hush-hush")
    file.write_text(file.read_text() + "    names: [a, '${NOTEBOOK}']\n    place: ${NOTEBOOK}\n")
    shown = run(config, "show").output
    assert "    depth: 3  # line 5\n" in shown
    assert "    place: '**********'  # $NOTEBOOK\n" in shown
    assert "hush-hush" not in shown


def test_options_may_hold_any_value(file: Path) -> None:
    file.write_text("context:\n  options:\n    a: {b: [1, {c: 2026-01-01}]}\n")
    assert list(load(file).config.context.options["a"]) == ["b"]
    file.write_text("context:\n  options:\n    # depth: 3\n")
    assert load(file).config.context.options == {}
    file.write_text("context:\n  options: deep\n")
    with pytest.raises(
        ConfigError, match=r"hermes.yaml:2: context.options: expected a mapping, found 'deep'"
    ):
        load(file)
