"""`hermes doctor` on the database: damage, the search index, what was given up on, and the last backup."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from gateway.cli.doctor_checks_host import store
from gateway.config.loader import load
from gateway.models.catalog import DEFAULT_WINDOW
from gateway.platforms.base import Finding
from tests.support.backup_harness import StateDirectory, with_texts
from tests.support.index_damage import DAMAGE
from tests.support.ordinary_user import hermes

PARKED_MESSAGE = """
    INSERT INTO inbox (id, platform, place, payload, state, reason, received_at)
    VALUES ('msg_1', 'telegram', '{"chat_id": "42"}', '{}', 'parked', 'It ended the process\neach time.', 0)
"""
PARKED_REPLY = """
    INSERT INTO outbox (id, conversation_id, turn_id, platform, place, kind, content, state, reason, created_at)
    VALUES (?, 'conv_1', 'msg_1', 'discord', '{"chat_id": "43"}', 'text', 'hello', 'parked', 'The bot was kicked.', 0)
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A current directory without a hermes.yaml."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")


@pytest.fixture
def state(private_home: Path) -> StateDirectory:
    return with_texts(private_home, "an apple", "a pear")


def examined(*, repair: bool = False) -> list[Finding]:
    return list(store(load(), repair=repair))


def levels(findings: list[Finding], part: str) -> list[str]:
    return [finding.level for finding in findings if part in finding.text]


def change(state: StateDirectory, sql: str, *values: object) -> None:
    with closing(sqlite3.connect(state.database, isolation_level=None)) as plain:
        plain.execute(sql, values)


def test_a_good_database(state: StateDirectory) -> None:
    """Nothing to mend, and where the last backup is."""
    findings = examined()
    assert {finding.level for finding in findings} == {"ok"}
    assert levels(findings, "the search index matches the messages") == ["ok"]
    assert levels(findings, "there is no backup in") == ["ok"]
    made = state.backup(state.home / "backups" / "hermes-2026-01-02-030405.tar.gz")
    assert levels(examined(), f"the last backup is {made.path}") == ["ok"]


def test_a_damaged_index(state: StateDirectory) -> None:
    """Found by looking, mended only when asked to, and then found to be well."""
    change(state, DAMAGE["no structure"])
    found = "`hermes doctor --repair` rebuilds it. No message is lost"
    assert levels(examined(), found) == ["fail"]
    assert levels(examined(), found) == ["fail"]
    assert levels(examined(repair=True), "it was rebuilt from 2 messages") == ["ok"]
    assert levels(examined(), "the search index matches the messages") == ["ok"]


def test_a_damaged_database(state: StateDirectory) -> None:
    """Nothing is tried on it; the last backup is named."""
    made = state.backup(state.home / "backups" / "hermes-2026-01-02-030405.tar.gz")
    state.database.write_bytes(b"no database" * 1000)
    (finding,) = examined(repair=True)
    assert finding.level == "fail"
    assert f"run `hermes restore {made.path}` with the last backup" in finding.text
    assert state.database.read_bytes() == b"no database" * 1000


def test_an_interrupted_restore(state: StateDirectory) -> None:
    """Said, with what finishes it."""
    (state.home / "state.db.restore").write_text("[]")
    (finding,) = examined()
    assert finding.level == "fail"
    assert "A restore of this database was interrupted; start `hermes run` to finish it." in finding.text


def test_what_was_given_up_on(state: StateDirectory) -> None:
    """A line for each kind, with the number; the list says where and why, and nothing here is changed by a repair."""
    change(state, PARKED_MESSAGE)
    for number in range(2):
        change(state, PARKED_REPLY, f"out_{number}")
    looks = "`hermes doctor --parked` lists them"
    assert levels(examined(repair=True), f"messages that could not be answered: 1; {looks}") == ["warn"]
    assert levels(examined(repair=True), f"replies that could not be delivered: 2; {looks}") == ["warn"]
    listed = hermes("doctor", "--parked")
    rows = [line.split("\t") for line in listed.stdout.splitlines()]
    assert [(row[0], row[1], row[2], row[4]) for row in rows] == [
        ("message", "telegram", "42", "It ended the process each time."),
        ("reply", "discord", "43", "The bot was kicked."),
        ("reply", "discord", "43", "The bot was kicked."),
    ]


def test_repaired_from_the_command_line(state: StateDirectory) -> None:
    """One line among the others, and an exit code of 0."""
    (state.home / "hermes.yaml").write_text("platforms: {web: {port: 0}}\n")
    change(state, "UPDATE index_progress SET seq = 100")
    repaired = hermes("doctor", "--offline", "--repair")
    assert (
        "ok   the search index was damaged (it claims to reach message 100, and the last one is 2)"
        in repaired.stdout
    )
    assert repaired.returncode == 0, repaired.stdout


def test_smaller_windows_of_both_models(state: StateDirectory) -> None:
    """The one that answers and the one that writes summaries, each at its own address."""
    (state.home / "hermes.yaml").write_text(
        "model: {name: openai/chat, base_url: 'http://127.0.0.1:9/v1', context_length: 32000}\n"
        "auxiliary: {compression: {model: openai/small, base_url: 'http://127.0.0.1:8/v1'}}\n"
    )
    rows = (
        ("openai/chat 127.0.0.1:9/v1", 32_000),
        ("openai/chat 127.0.0.1:7/v1", 32_000),
        ("openai/small 127.0.0.1:8/v1", DEFAULT_WINDOW),
    )
    for key, believed in rows:
        change(state, "INSERT INTO model_windows VALUES (?, ?, ?, 1, ?)", key, believed, 4_096, time.time())
    told = [finding.text for finding in examined() if "as believed" in finding.text]
    assert told == [
        "openai/chat holds 4,096 tokens, not 32,000 as believed. Hermes keeps to that from now on; "
        "set `model.context_length: 4096` in hermes.yaml.",
        f"openai/small, which writes the summaries, holds 4,096 tokens, not {DEFAULT_WINDOW:,} as believed. "
        "Hermes keeps to that from now on.",
    ]
