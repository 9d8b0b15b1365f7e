"""Variables in values, and secrets that are never shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from gateway.config.loader import load
from gateway.config.schema import Config, ModelConfig
from gateway.errors import ConfigError

SECRET = "sk-ant-api03-THIS-MUST-NOT-BE-SEEN"


def read(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "hermes.yaml"
    path.write_text(text)
    return load(path).config


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("${WHO}", "ada"),
        ("openai/${WHO}-${WHO}", "openai/ada-ada"),
        ("${NOBODY:-eve}", "eve"),
        ("${EMPTY:-eve}", "eve"),
        ("${WHO:-eve}", "ada"),
        ("$${WHO}", "${WHO}"),
        ("'${WHO}'", "ada"),
        ("$WHO", "$WHO"),
        ("${TEMPLATE}", "${WHO}"),
    ],
)
def test_filling_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, name: str) -> None:
    """The value of a variable is not read as a template again."""
    monkeypatch.setenv("WHO", "ada")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("TEMPLATE", "${WHO}")
    assert read(tmp_path, f"model:\n  name: {written}\n").model.name == name


def test_variables_are_read_as_the_key_wants_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables can hold numbers and booleans; a key of digits stays text."""
    monkeypatch.setenv("PORT", "9000")
    monkeypatch.setenv("ON", "false")
    monkeypatch.setenv("KEY", "12345")
    monkeypatch.setenv("SHARE", "0.7")
    config = read(
        tmp_path,
        "model:\n  api_key: ${KEY}\nplatforms:\n  web:\n    port: ${PORT}\n    enabled: ${ON}\n"
        "compression:\n  threshold: ${SHARE}\n",
    )
    assert config.platforms.web.port == 9000
    assert config.platforms.web.enabled is False
    assert config.compression.threshold == 0.7
    assert config.model.api_key and config.model.api_key.get_secret_value() == "12345"


def test_an_empty_variable_means_not_set(tmp_path: Path) -> None:
    """`${NAME:-}` is how an optional secret is written."""
    config = read(
        tmp_path, "model:\n  api_key: ${NOT_THERE:-}\n  base_url: ''\n  context_length: ${NEITHER:-}\n"
    )
    assert config == Config()


def test_variables_from_dotenv(tmp_path: Path, private_home: Path) -> None:
    private_home.mkdir()
    (private_home / ".env").write_text("MY_MODEL=openai/x\n")
    assert read(tmp_path, "model:\n  name: ${MY_MODEL}\n").model.name == "openai/x"


@pytest.mark.parametrize(
    "text",
    [
        "model: {api_key: %s, name: 5}",
        "model: %s",
        "model: [%s",
        "model: {base_url: %s}",
        "model: {base_url: 'http://u:%s@host/'}",
        "model: {api_kye: %s}",
        "model:\n  context_length: ${SECRET}",
        "model: {fallbacks: [{api_key: %s}]}",
        "model: {api_key: [%s]}",
        "platforms: {web: {token: %s, port: x}}",
        "platforms: {web: {token: {a: %s}}}",
        "compression: %s",
        "%s",
        "a: '%s",
    ],
)
def test_errors_never_show_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Neither the message nor its cause shows it, wherever it was put by mistake."""
    monkeypatch.setenv("SECRET", SECRET)
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text.replace("%s", SECRET))
    assert SECRET not in str(caught.value) + repr(caught.value)
    assert caught.value.__cause__ is None and caught.value.__context__ is None


def test_short_secrets_are_not_shown_either() -> None:
    """A password inside a URL is refused without being repeated."""
    with pytest.raises(ValidationError) as caught:
        ModelConfig.model_validate({"base_url": "http://u:pw@h"})
    assert "pw@" not in str(caught.value)


def test_repr_of_a_configuration_hides_secrets(tmp_path: Path) -> None:
    text = f"model: {{api_key: {SECRET}, fallbacks: [{{name: a, api_key: {SECRET}}}]}}\n"
    path = tmp_path / "hermes.yaml"
    path.write_text(text + f"platforms: {{web: {{token: {SECRET}}}}}\n")
    loaded = load(path)
    assert loaded.config.model.api_key and loaded.config.model.api_key.get_secret_value() == SECRET
    for shown in (repr(loaded), str(loaded.config), loaded.config.model_dump_json(), str(loaded.origins)):
        assert SECRET not in shown


def test_configuration_is_frozen() -> None:
    with pytest.raises(ValidationError):
        Config().model.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize("platform", ["telegram", "discord"])
def test_a_bot_needs_only_its_variable(
    tmp_path: Path, platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token in its usual variable turns the bot on."""
    path = tmp_path / "hermes.yaml"
    path.write_text("agent:\n  max_iterations: 3\n")
    assert not getattr(load(path).config.platforms, platform).is_on
    monkeypatch.setenv(f"{platform.upper()}_BOT_TOKEN", "12:abc")
    loaded = load(path)
    settings = getattr(loaded.config.platforms, platform)
    assert settings.is_on
    assert settings.token.get_secret_value() == "12:abc"
    assert loaded.origins[f"platforms.{platform}.token"] == f"${platform.upper()}_BOT_TOKEN"
    assert "12:abc" not in repr(loaded)


@pytest.mark.parametrize("line", ["token:", "token: other", "enabled: false"])
def test_the_file_has_the_last_word_about_a_bot(
    tmp_path: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`enabled: false`, an empty token or another token in the file overrides the variable."""
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", "12:abc")
    path = tmp_path / "hermes.yaml"
    path.write_text(f"platforms:\n  telegram:\n    {line}\n")
    settings = load(path).config.platforms.telegram
    assert settings.is_on is (line == "token: other")
