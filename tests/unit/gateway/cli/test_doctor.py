"""`hermes doctor`: every finding on a line, with what to do, and an exit code to rely on."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from agent.store import Address
from gateway.store.sqlite.store import SqliteStore
from tests.fakes.openai.server import FakeOpenAI
from tests.support.hermes_process import hermes as running_hermes
from tests.support.ordinary_user import hermes


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A current directory without a hermes.yaml."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")


@pytest.fixture
def file(private_home: Path) -> Path:
    """A configuration in the state directory, with a chat page on a free port."""
    private_home.mkdir(mode=0o700)
    path = private_home / "hermes.yaml"
    path.write_text("platforms: {web: {port: 0}}\n")
    return path


def examined(*options: str, **variables: str) -> tuple[int, list[tuple[str, str]]]:
    """The exit code and the findings as (level, text)."""
    result = hermes("doctor", *options, **variables)
    assert result.stderr == ""
    return result.returncode, [(line[:5].strip(), line[5:]) for line in result.stdout.splitlines()]


def finding(findings: list[tuple[str, str]], part: str) -> str:
    """The level of the one finding that says this."""
    (level,) = [level for level, text in findings if part in text]
    return level


def test_a_fresh_installation(file: Path, private_home: Path) -> None:
    """All is well before the first start, and looking makes nothing."""
    code, findings = examined("--offline")
    assert code == 0
    assert {level for level, _ in findings} == {"ok"}
    assert finding(findings, "Python 3.") == "ok"
    assert finding(findings, f"configuration from {file}") == "ok"
    assert finding(findings, "will be created at the first start") == "ok"
    assert finding(findings, "the embedded demonstration model is installed") == "ok"
    assert finding(findings, "embedded/smollm2 was not called") == "ok"
    assert sorted(path.name for path in private_home.iterdir()) == ["hermes.yaml"]


def test_without_a_state_directory(private_home: Path) -> None:
    """A missing state directory is fine, and the check does not create it."""
    _, findings = examined("--offline")
    assert finding(findings, f"the state directory {private_home} will be created") == "ok"
    assert not private_home.exists()


def test_open_permissions_are_a_warning(file: Path, private_home: Path) -> None:
    """With the command that closes them; a warning does not fail."""
    (private_home / ".env").write_text("")
    private_home.chmod(0o755)
    (private_home / ".env").chmod(0o644)
    code, findings = examined("--offline")
    assert code == 0
    assert finding(findings, f"run `chmod 700 {private_home}`") == "warn"
    assert finding(findings, f"run `chmod 600 {private_home / '.env'}`") == "warn"


def test_an_unwritable_state_directory(file: Path, private_home: Path) -> None:
    """Nothing could be stored there."""
    private_home.chmod(0o500)
    code, findings = examined("--offline")
    private_home.chmod(0o700)
    assert code == 1
    assert finding(findings, "set HERMES_HOME to a directory that you may read and write") == "fail"


def test_every_mistake_in_the_configuration(file: Path) -> None:
    """One line each; what does not depend on it is still examined."""
    file.write_text("modle: {}\nlogging: {level: loud}\n")
    code, findings = examined("--offline")
    assert code == 1
    assert finding(findings, f"{file}:1: modle: unknown key; did you mean model?") == "fail"
    assert finding(findings, f"{file}:2: logging.level: expected") == "fail"
    assert finding(findings, "keys: ") == "ok"
    assert finding(findings, "not checked, because the configuration cannot be used: tools,") == "warn"


def test_an_unknown_tool(file: Path) -> None:
    """Found before the first message needs it."""
    file.write_text("tools: {enabled: [todoo]}\nplatforms: {web: {enabled: false}}\n")
    code, findings = examined("--offline")
    assert code == 1
    assert finding(findings, "There is no tool `todoo`") == "fail"
    assert finding(findings, "web: off") == "ok"


def test_keys_are_named_and_not_shown(file: Path) -> None:
    """Which providers could be used, nothing more."""
    _, findings = examined("--offline", OPENAI_API_KEY="sk-secret")
    assert finding(findings, "keys: OPENAI_API_KEY") == "ok"
    assert "sk-secret" not in str(findings)


def test_a_model_without_its_key(file: Path) -> None:
    """Said without asking the provider."""
    file.write_text("model: {name: anthropic/claude-x}\nplatforms: {web: {port: 0}}\n")
    code, findings = examined()
    assert code == 1
    assert finding(findings, "needs a key; set ANTHROPIC_API_KEY, or run `hermes setup`") == "fail"


def test_the_model_for_summaries(file: Path) -> None:
    """Who writes them and where; or what is missing for that."""
    head = "platforms: {web: {port: 0}}\nmodel: {name: openai/big, base_url: 'http://127.0.0.1:9/v1'}\n"
    file.write_text(head + "auxiliary: {compression: {provider: main, model: small}}\n")
    _, findings = examined("--offline")
    assert finding(findings, "openai/small at 127.0.0.1:9 writes the summaries") == "ok"
    file.write_text(head + "auxiliary: {compression: {provider: nous, model: Hermes-4-70B}}\n")
    code, findings = examined("--offline")
    assert code == 1
    assert (
        finding(findings, "nous/Hermes-4-70B cannot write summaries without a key; set NOUS_API_KEY")
        == "fail"
    )
    _, findings = examined("--offline", NOUS_API_KEY="n")
    assert finding(findings, "nous/Hermes-4-70B writes the summaries") == "ok"


async def make_database(path: Path) -> None:
    store = await SqliteStore.open(path)
    await store.sessions.open_conversation(Address("web", "1"), person="ada")
    await store.close()


def test_a_good_database(file: Path, private_home: Path) -> None:
    """It is opened for reading only; warned about if others could read it."""
    path = private_home / "state.db"
    asyncio.run(make_database(path))
    code, findings = examined("--offline")
    assert code == 0
    assert finding(findings, f"the database {path} is sound") == "ok"
    path.chmod(0o644)
    code, findings = examined("--offline")
    assert (code, finding(findings, f"run `chmod 600 {path}`")) == (0, "warn")


def test_a_damaged_database(file: Path, private_home: Path) -> None:
    """The sentence says what to do with it; the file is left alone."""
    path = private_home / "state.db"
    path.write_bytes(b"this was never a database" * 1000)
    code, findings = examined("--offline")
    assert code == 1
    assert (
        finding(findings, "is damaged (file is not a database); stop Hermes and run `hermes restore FILE`")
        == "fail"
    )
    assert path.read_bytes() == b"this was never a database" * 1000


def test_a_database_damaged_inside(file: Path, private_home: Path) -> None:
    """The header is fine and the first pages too; doctor reads the rest."""
    path = private_home / "state.db"
    asyncio.run(make_database(path))
    content = bytearray(path.read_bytes())
    for page in range(5, len(content) // 4096):
        content[page * 4096 : page * 4096 + 200] = b"x" * 200
    path.write_bytes(content)
    code, findings = examined("--offline")
    assert code == 1
    assert finding(findings, "run `hermes restore FILE` with a backup, or move it away") == "fail"


def test_an_unknown_engine(file: Path) -> None:
    """Hermes would not start with it."""
    file.write_text("context: {engine: slidng_window}\n")
    code, findings = examined("--offline")
    assert code == 1
    assert finding(findings, "sliding_window") == "fail"


def test_a_port_in_other_hands(file: Path) -> None:
    """A port in use fails; an address that cannot be bound fails with the reason."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        file.write_text(f"platforms: {{web: {{port: {port}}}}}\n")
        code, findings = examined("--offline")
        assert code == 1
        assert finding(findings, f"127.0.0.1:{port} is in use by another program") == "fail"
    file.write_text("platforms: {web: {host: 203.0.113.7, token: an-obviously-fake-token}}\n")
    code, findings = examined("--offline")
    assert code == 1
    assert finding(findings, "cannot listen on 203.0.113.7:8686") == "fail"


async def test_a_port_held_by_hermes(private_home: Path) -> None:
    """A running Hermes is fine."""
    async with running_hermes(private_home, {}) as process:
        port = process.url.rpartition(":")[2]
        process.config_path.write_text(f"platforms: {{web: {{port: {port}}}}}\n")
        code, findings = await asyncio.to_thread(examined, "--offline")
    assert finding(findings, f"Hermes is running at 127.0.0.1:{port}") == "ok"
    assert code == 0


def test_another_package_with_our_name(file: Path, tmp_path: Path) -> None:
    """Its files would answer our imports; the person learns which distribution it is."""
    info = tmp_path / "site" / "intruder-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: intruder\nVersion: 1.0\n")
    (info / "top_level.txt").write_text("agent\n")
    root = Path(__file__).parents[4]
    code, findings = examined("--offline", PYTHONPATH=f"{root}:{tmp_path / 'site'}")
    assert code == 1
    assert (
        finding(findings, "intruder also installs `agent`; install Hermes in its own environment") == "fail"
    )


def test_a_python_path_that_leads_to_the_current_directory(file: Path) -> None:
    """Code of others would run there before any line of Hermes."""
    root = Path(__file__).parents[4]
    _, findings = examined("--offline", PYTHONPATH=f"{root}::lib")
    assert finding(findings, "PYTHONPATH has an empty entry") == "warn"
    assert finding(findings, "PYTHONPATH has the relative entry 'lib'") == "warn"
    _, findings = examined("--offline", PYTHONPATH=str(root))
    assert not any("PYTHONPATH" in text for _, text in findings)


def test_a_model_that_answers(file: Path) -> None:
    """One small question to the configured model."""
    with FakeOpenAI(api_key="k").in_thread() as server:
        server.reply("ok")
        file.write_text(
            f"model: {{name: openai/test-model, base_url: '{server.base_url}', api_key: k}}\n"
            "platforms: {web: {port: 0}}\n"
        )
        code, findings = examined()
    assert code == 0, findings
    assert finding(findings, "openai/test-model answers") == "ok"
    assert len(server.requests) == 1


def test_a_model_that_does_not_answer(file: Path) -> None:
    """With the reason, and what to check."""
    file.write_text(
        "model: {name: openai/a, base_url: 'http://127.0.0.1:9/v1'}\nplatforms: {web: {port: 0}}\n"
    )
    code, findings = examined()
    assert code == 1
    assert finding(findings, "check the network and `model.base_url`") == "fail"
