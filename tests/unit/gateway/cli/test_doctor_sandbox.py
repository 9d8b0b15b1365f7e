"""What `hermes doctor` says about the sandbox of the terminal, and how its settings get there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agent.sandbox.sandbox import Sandbox
from gateway.app import build_sandbox
from gateway.cli.doctor_checks_agent import sandbox as examined
from gateway.config.loader import LoadedConfig, load
from tests.support.sandboxed import NEEDS_SANDBOX

Configured = Callable[[str], LoadedConfig]


@pytest.fixture
def configured(tmp_path: Path) -> Configured:
    def configured(text: str) -> LoadedConfig:
        path = tmp_path / "hermes.yaml"
        path.write_text(text)
        return load(path)

    return configured


def findings(loaded: LoadedConfig) -> list[tuple[str, str]]:
    return [(finding.level, finding.text) for finding in examined(loaded)]


def test_without_a_terminal_there_is_nothing_to_say(configured: Configured) -> None:
    """Most people have none."""
    assert findings(configured("tools: {sandbox: {mode: off}}")) == []


@NEEDS_SANDBOX
@pytest.mark.parametrize("tools", ["enabled: [terminal]", "platforms: {telegram: [terminal]}"])
def test_it_is_really_tried(configured: Configured, tools: str) -> None:
    """Wherever the terminal is on."""
    assert findings(configured(f"tools: {{{tools}}}")) == [
        ("ok", "the sandbox of the terminal works; it has no network")
    ]


@NEEDS_SANDBOX
def test_a_network_reaches_the_chat_page(configured: Configured) -> None:
    """Without a password it answers every user of this machine."""
    text = "tools: {enabled: [terminal], sandbox: {network: true}}\n"
    [works, warning] = findings(configured(text))
    assert works == ("ok", "the sandbox of the terminal works; it has a network")
    assert warning[0] == "warn" and "set platforms.web.token" in warning[1]
    assert len(findings(configured(text + "platforms: {web: {token: fake-token-for-tests}}"))) == 1


def test_without_a_sandbox_there_is_a_warning(configured: Configured) -> None:
    """Warn every time, because it is easy to forget."""
    [(level, text)] = findings(configured("tools: {enabled: [terminal], sandbox: {mode: off}}"))
    assert level == "warn"
    assert "may do everything that Hermes may" in text


def test_settings(configured: Configured, private_home: Path) -> None:
    """Each key has its place, and what is Hermes' own is hidden."""
    loaded = configured(
        "tools: {sandbox: {network: true, memory_mb: 65, processes: 5, seconds: 6, cpu_seconds: 7, file_mb: 8}}\n"
        "storage: {path: /srv/hermes/state.db}"
    )
    assert build_sandbox(loaded) == Sandbox(
        network=True,
        memory_mb=65,
        processes=5,
        seconds=6,
        cpu_seconds=7,
        file_mb=8,
        hidden=(private_home, Path("/srv/hermes"), loaded.path or Path()),
    )
    assert build_sandbox(configured("tools: {sandbox: {mode: off}}")) is None


def test_the_defaults_are_the_same_everywhere(configured: Configured) -> None:
    """In the configuration and in the tool itself, which plugins and tests use without one."""
    chosen = build_sandbox(configured("{}"))
    assert chosen is not None
    assert chosen == Sandbox(hidden=chosen.hidden)


def test_off_is_a_word(configured: Configured) -> None:
    """To YAML it is none; to a person who wants no questions asked, it is."""
    assert configured("tools: {approval: off}").config.tools.approval == "off"
    assert configured("tools: {approval: 'off'}").config.tools.approval == "off"
