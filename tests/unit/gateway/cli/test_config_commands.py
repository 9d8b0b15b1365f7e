"""`hermes config check` and `hermes config show`."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from gateway.cli import Options
from gateway.cli.config_commands import config
from gateway.config.loader import SHIPPED
from tests.support.ordinary_user import hermes

SECRET = "sk-ant-THIS-MUST-NOT-BE-SEEN"


def run(command: str, path: Path | None) -> Result:
    return CliRunner().invoke(config, [command], obj=Options(path))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "hermes.yaml"


def test_check_of_a_good_file(file: Path) -> None:
    """One line, exit code 0."""
    file.write_text("model: {name: openai/x}\n")
    result = run("check", file)
    assert (result.exit_code, result.output) == (0, f"ok: {file}\n")


def test_check_names_every_mistake(file: Path) -> None:
    """All of them on standard error, exit code 2."""
    file.write_text("modle: {}\ncompression: {threshold: 2}\n")
    result = run("check", file)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert f"{file}:1: modle: unknown key; did you mean model?\n" in result.stderr
    assert f"{file}:2: compression.threshold: expected a number from 0.0 to 1.0, found 2.\n" in result.stderr


def test_check_knows_the_names(file: Path) -> None:
    """What does not exist is a mistake, too, with its line: a tool, an engine, the provider of a model."""
    file.write_text(
        "tools:\n  enabled: [todoo, memory]\n  platforms: {web: [memry]}\n"
        "context:\n  engine: lmc\nmodel: {name: antropic/claude}\n"
    )
    result = run("check", file)
    assert result.exit_code == 2
    for line in (
        f"{file}:2: tools.enabled: There is no tool `todoo`. Did you mean `todo`?\n",
        f"{file}:3: tools.platforms.web: There is no tool `memry`. Did you mean `memory`?\n",
        f"{file}:5: context.engine: There is no engine `lmc`. Did you mean `lcm`?\n",
        f"{file}:6: model.name: There is no provider `antropic`. Did you mean `anthropic/claude`?\n",
    ):
        assert line in result.stderr
    for name in ("nano-gpt/x", "openrouter/qwen/x", "embedded/smollm2", "auto"):
        file.write_text(f"model: {{name: {name}}}\n")
        assert run("check", file).exit_code == 0, name
    file.write_text("model: {name: antropic/claude, base_url: 'http://127.0.0.1:9/v1'}\n")
    assert run("check", file).exit_code == 0


def test_check_resolves_the_model_for_summaries(file: Path) -> None:
    """Its provider exists, its key is set, and the main provider can have it."""
    base_url = "'http://127.0.0.1:9/v1'"
    main = f"model: {{name: openai/big, base_url: {base_url}}}"
    for auxiliary, problem in (
        ("{model: small, provider: nuos}", "There is no provider `nuos`. Did you mean `nous/small`?"),
        ("{model: Hermes-4-70B, provider: nous}", "nous/Hermes-4-70B needs NOUS_API_KEY, which is not set."),
        (
            "{model: anthropic/haiku}",
            "anthropic/haiku needs ANTHROPIC_API_KEY, which is not set.",
        ),
    ):
        file.write_text(f"{main}\nauxiliary:\n  compression: {auxiliary}\n")
        result = run("check", file)
        assert result.exit_code == 2
        assert result.stderr.endswith(f"{file}:3: auxiliary.compression: {problem}\n")
    for auxiliary in (
        "{model: small, provider: main}",
        "{model: openai/small}",
        f"{{model: x, base_url: {base_url}}}",
    ):
        file.write_text(f"{main}\nauxiliary: {{compression: {auxiliary}}}\n")
        assert run("check", file).exit_code == 0, auxiliary


def test_check_through_the_front_door(tmp_path: Path, file: Path) -> None:
    """The installed command behaves the same, and a long path is not broken over lines."""
    file = tmp_path / ("deep" * 50) / "hermes.yaml"
    file.parent.mkdir()
    file.write_text("model: [\n")
    result = hermes("--config", str(file), "config", "check")
    assert result.returncode == 2
    assert f"{file}:2: not valid YAML" in result.stderr
    assert "Traceback" not in result.stderr


def test_show_is_the_effective_configuration(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """YAML of every key, each with its origin: a line, a variable or the default."""
    monkeypatch.setenv("PORT", "9000")
    file.write_text("model:\n  name: openai/x\nplatforms:\n  web:\n    port: ${PORT}\n")
    result = run("show", file)
    assert result.exit_code == 0
    shown = yaml.safe_load(result.output)
    assert (shown["model"]["name"], shown["platforms"]["web"]["port"]) == ("openai/x", 9000)
    assert shown["agent"]["system_prompt"].endswith("say so.\n")
    assert "  name: openai/x  # line 2\n" in result.output
    assert "    port: 9000  # $PORT\n" in result.output
    assert "  threshold: 0.5  # default\n" in result.output


def test_show_masks_secrets(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those in lists and from variables; one can still see that they are set."""
    monkeypatch.setenv("TOKEN", SECRET)
    file.write_text(
        f"model: {{api_key: {SECRET}, fallbacks: [{{name: a, api_key: {SECRET}}}]}}\n"
        "platforms:\n  web:\n    token: ${TOKEN}\n"
    )
    result = run("show", file)
    assert result.exit_code == 0
    assert SECRET not in result.output
    assert result.output.count("'**********'") == 3


def test_show_without_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped defaults are called that."""
    monkeypatch.chdir(tmp_path)
    result = run("show", None)
    assert result.output.startswith(f"# Settings: the defaults in {SHIPPED}\n# State directory: ")
    assert "# line" not in result.output


def test_show_of_a_broken_file(file: Path) -> None:
    """The same sentences as `check` gives."""
    file.write_text("zebra: 1\n")
    result = hermes("--config", str(file), "config", "show")
    assert result.returncode == 2
    assert f"{file}:1: zebra: unknown key." in result.stderr
