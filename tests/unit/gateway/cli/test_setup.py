"""`hermes setup`: from a few answers to a configuration that works."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from gateway.config.loader import SHIPPED, load
from tests.fakes.openai.server import FakeOpenAI
from tests.support.ordinary_user import hermes

KEY = "sk-THIS-MUST-NOT-BE-SEEN"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory without a hermes.yaml: setup must never write into the source tree."""
    directory = tmp_path / "elsewhere"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_answers_through_a_pipe(private_home: Path) -> None:
    """Provider, model and key, one line each; the key is kept apart and never printed."""
    result = hermes("setup", "--offline", typed=f"anthropic\nanthropic/claude-x\n{KEY}\n")
    assert result.returncode == 0, result.stderr
    assert KEY not in result.stdout + result.stderr
    assert KEY not in (private_home / "hermes.yaml").read_text()
    assert (private_home / ".env").read_text() == f"ANTHROPIC_API_KEY='{KEY}'\n"
    assert (mode(private_home), mode(private_home / ".env")) == (0o700, 0o600)
    model = load().config.model
    assert model.name == "anthropic/claude-x"
    assert model.api_key and model.api_key.get_secret_value() == KEY


def test_all_but_the_model_stays_byte_for_byte(private_home: Path) -> None:
    """The person's own file is used where there is one; comments and spacing survive."""
    private_home.mkdir()
    file = private_home / "hermes.yaml"
    file.write_bytes(SHIPPED.read_bytes())
    assert hermes("setup", "--offline", typed="openrouter\nacme/one\nk\n").returncode == 0
    wanted = SHIPPED.read_text().replace("  name: auto\n", "  name: openrouter/acme/one\n")
    assert file.read_text() == wanted.replace("${HERMES_API_KEY:-}", "${OPENROUTER_API_KEY}")


def test_a_file_in_the_current_directory_stays_as_it_is(private_home: Path, elsewhere: Path) -> None:
    """Settings go where Hermes will look for them, and a key never into a folder that may be another person's."""
    file = elsewhere / "hermes.yaml"
    file.write_text("model: {name: openai/theirs}\n")
    result = hermes("setup", "--offline", typed="openrouter\nacme/one\nk\n")
    assert result.returncode == 0, result.stderr
    assert file.read_text() == "model: {name: openai/theirs}\n"
    assert "acme/one" in (private_home / "hermes.yaml").read_text()
    assert f"{file} is ignored; settings come from {private_home / 'hermes.yaml'}." in result.stderr


def test_in_the_source_tree_the_shipped_file_stays_as_it_is(
    private_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings go into a copy in the state directory, which Hermes then uses, also in the source tree."""
    monkeypatch.chdir(SHIPPED.parent)
    shipped = SHIPPED.read_bytes()
    try:
        result = hermes("setup", "--offline", typed="openrouter\nacme/one\nk\n")
        assert SHIPPED.read_bytes() == shipped
    finally:
        if SHIPPED.read_bytes() != shipped:
            SHIPPED.write_bytes(shipped)
    assert result.returncode == 0, result.stderr
    own = private_home / "hermes.yaml"
    assert f"Wrote openrouter/acme/one to {own}" in result.stdout
    assert len(own.read_bytes().splitlines()) == len(shipped.splitlines())
    loaded = load()
    assert (loaded.path, loaded.config.model.name) == (own, "openrouter/acme/one")


def test_a_server_of_ones_own(private_home: Path) -> None:
    """Asked for address, model and, if it wants one, a key; nonsense is asked again."""
    typed = "server\nnonsense\nhttp://127.0.0.1:9/v1\nllama3.2\n\n"
    result = hermes("setup", "--offline", typed=typed)
    assert result.returncode == 0, result.stderr
    assert "expected an http or https URL" in result.stdout + result.stderr
    model = load().config.model
    assert (model.name, model.base_url, model.api_key) == ("openai/llama3.2", "http://127.0.0.1:9/v1", None)
    assert not (private_home / ".env").exists()


def test_the_embedded_model_is_the_default_without_keys(private_home: Path) -> None:
    """Enter is enough; an earlier address and key are taken out again."""
    first = hermes("setup", "--offline", "--non-interactive", "--model=openai/a", "--base-url=http://h/v1",
                   f"--api-key={KEY}")  # fmt: skip
    assert first.returncode == 0, first.stderr
    assert (private_home / ".env").read_text() == f"HERMES_API_KEY='{KEY}'\n"
    assert hermes("setup", "--offline", typed="\n").returncode == 0
    model = load().config.model
    assert (model.name, model.base_url, model.api_key) == ("embedded/smollm2", None, None)


def test_a_key_that_is_set_need_not_be_typed(private_home: Path) -> None:
    """Enter keeps what the environment has, and nothing is copied out of it."""
    result = hermes("setup", "--offline", typed="\n\n\n", OPENAI_API_KEY=KEY)
    assert result.returncode == 0, result.stderr
    assert KEY not in result.stdout + (private_home / "hermes.yaml").read_text()
    assert not (private_home / ".env").exists()
    assert "api_key: ${OPENAI_API_KEY}\n" in (private_home / "hermes.yaml").read_text()


def test_another_key_in_the_environment_is_mentioned() -> None:
    """What was just typed would silently not be used."""
    result = hermes("setup", "--offline", "--non-interactive", "--model=openai/a", "--api-key=new",
                    OPENAI_API_KEY="old")  # fmt: skip
    assert "the environment has another OPENAI_API_KEY, and that one is used" in result.stdout


def test_other_secrets_are_kept(private_home: Path) -> None:
    """`.env` belongs to the person, too; it is closed to others when a key goes in."""
    private_home.mkdir()
    (private_home / ".env").write_text("# mine\nOTHER=1\nOPENAI_API_KEY=old\n")
    (private_home / ".env").chmod(0o644)
    assert (
        hermes("setup", "--offline", "--non-interactive", "--model=openai/a", "--api-key=n'ew").returncode
        == 0
    )
    assert (private_home / ".env").read_text() == "# mine\nOTHER=1\nOPENAI_API_KEY='n\\'ew'\n"
    assert mode(private_home / ".env") == 0o600
    key = load().config.model.api_key
    assert key and key.get_secret_value() == "n'ew"


def test_config_option_says_where(tmp_path: Path) -> None:
    """A file that does not exist yet is made, with all its comments."""
    file = tmp_path / "new" / "mine.yaml"
    result = hermes(
        "--config", str(file), "setup", "--offline", "--non-interactive", "--model=embedded/smollm2"
    )
    assert result.returncode == 0, result.stderr
    assert file.read_text().startswith("# Hermes: every setting with its default.")
    assert load(file).config.model.name == "embedded/smollm2"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ([], "--non-interactive needs --model"),
        (["--model=openai/a", "--base-url=ftp://x"], "expected an http or https URL"),
        (["--model=openai/a", "--api-key=two words"], "expected a key without spaces"),
    ],
)
def test_wrong_options(private_home: Path, options: list[str], complaint: str) -> None:
    """Exit code 2, and nothing is written."""
    result = hermes("setup", "--non-interactive", *options)
    assert result.returncode == 2
    assert complaint in result.stderr
    assert not (private_home / "hermes.yaml").exists()


def test_input_that_ends_early(private_home: Path) -> None:
    """Nothing is written for half an answer."""
    result = hermes("setup", "--offline", typed="anthropic\n")
    assert result.returncode != 0
    assert "Traceback" not in result.stderr
    assert not (private_home / "hermes.yaml").exists()


def test_the_model_is_tried_out() -> None:
    """A real call with the settings just written."""
    with FakeOpenAI(api_key=KEY).in_thread() as server:
        server.reply("ok")
        result = hermes("setup", typed=f"server\n{server.base_url}\ntest-model\n{KEY}\n")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "It answers." in result.stdout
    assert len(server.requests) == 1
    assert KEY not in result.stdout + result.stderr


def test_a_refused_key_is_said_so(private_home: Path) -> None:
    """Exit code 1: the settings are saved, and they do not work."""
    with FakeOpenAI(api_key="another").in_thread() as server:
        result = hermes("setup", "--non-interactive", "--model=openai/test-model", f"--base-url={server.base_url}",
                        "--api-key=wrong")  # fmt: skip
    assert result.returncode == 1, result.stdout + result.stderr
    assert "The settings are saved. The model provider refused the key" in result.stdout
    assert (private_home / "hermes.yaml").exists()


def test_a_server_that_is_down_is_no_fault_of_the_settings() -> None:
    """Exit code 0 and an honest line, soon."""
    result = hermes("setup", "--non-interactive", "--model=openai/a", "--base-url=http://127.0.0.1:9/v1")
    assert result.returncode == 0, result.stdout + result.stderr
    assert (
        "The settings are saved. The model did not answer: The model provider cannot be reached"
        in result.stdout
    )
    assert "Traceback" not in result.stderr
