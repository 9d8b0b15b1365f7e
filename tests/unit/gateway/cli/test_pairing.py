"""`hermes pairing`: seen as a process, beside a gateway that has the same database open."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from gateway.access import Gate, Pairing
from gateway.config.schema_platforms import BotConfig
from gateway.store.sqlite.store import SqliteStore
from gateway.types import Author, Place
from tests.support.hermes_process import hermes as running_hermes
from tests.support.ordinary_user import hermes

T = TypeVar("T")

ADA, BOB = Author("1001", "Ada\x1b[31m\nLovelace"), Author("1002", "Bob")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A current directory without a hermes.yaml."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")


def stored(home: Path, work: Callable[[SqliteStore], Coroutine[Any, Any, T]]) -> T:
    """Does something with the database, as the gateway would."""

    async def do() -> T:
        store = await SqliteStore.open(home / "state.db")
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(do())


def code_for(home: Path, author: Author = ADA, platform: str = "telegram") -> str:
    async def ask(store: SqliteStore) -> str:
        code = await Pairing(store.access).request(platform, author)
        assert code is not None
        return code.code

    return stored(home, ask)


def test_before_anything_was_stored(private_home: Path) -> None:
    """Without requests and approvals, listing creates no database."""
    for command, sentence in (("list", "No one is waiting."), ("people", "No one was approved yet.")):
        shown = hermes("pairing", command)
        assert (shown.returncode, shown.stdout, shown.stderr) == (0, "", f"{sentence}\n")
        assert json.loads(hermes("pairing", command, "--json").stdout) == []
    assert hermes("pairing", "approve", "K7QM4XWZ").returncode == 1
    assert hermes("pairing", "deny", "K7QM4XWZ").returncode == 1
    assert hermes("pairing", "revoke", "telegram", "1001").returncode == 1
    assert not private_home.exists()


def test_from_a_code_to_a_stranger_again(private_home: Path) -> None:
    """Listed, approved as it was read out, among the people, revoked."""
    code = code_for(private_home)
    waiting = hermes("pairing", "list").stdout
    platform, user_id, asked, expires, name = waiting.rstrip("\n").split("\t")
    assert (platform, user_id, name) == ("telegram", "1001", "Ada\\x1b[31m Lovelace")
    assert asked < expires
    assert code not in waiting

    approved = hermes("pairing", "approve", f"{code[:4].lower()}-", code[4:])
    assert approved.returncode == 0, approved.stderr
    assert approved.stdout == (
        "Ada\\x1b[31m Lovelace (telegram 1001) may talk to the bot now. "
        "`hermes pairing revoke telegram 1001` takes that back.\n"
        "To let this person approve others and change the model, add 1001 to `platforms.telegram.admins` in "
        "hermes.yaml.\n"
    )
    assert hermes("pairing", "list").stdout == ""
    assert "telegram\t1001\t" in hermes("pairing", "people").stdout

    revoked = hermes("pairing", "revoke", "telegram", "1001")
    assert (revoked.returncode, revoked.stdout) == (0, "1001 may no longer talk to the bot on telegram.\n")
    assert hermes("pairing", "people").stdout == ""
    again = hermes("pairing", "revoke", "telegram", "1001")
    assert (again.returncode, again.stdout) == (1, "")
    assert (
        "1001 was not approved on telegram; `hermes pairing people` shows the ids of those who were."
        in again.stderr
    )


def test_as_json(private_home: Path) -> None:
    """Every field, and no code among them."""
    code = code_for(private_home)
    shown = hermes("pairing", "list", "--json").stdout
    (request,) = json.loads(shown)
    assert set(request) == {"platform", "user_id", "name", "asked_at", "expires_at"}
    assert code not in shown
    hermes("pairing", "approve", code)
    (paired,) = json.loads(hermes("pairing", "people", "--json").stdout)
    assert set(paired) == {"platform", "user_id", "name", "approved_by", "approved_at"}
    assert paired["approved_by"] == "command line"


def test_denied(private_home: Path) -> None:
    """The code is gone; using it says what may have happened to it."""
    code = code_for(private_home)
    assert hermes("pairing", "deny", code).returncode == 0
    refused = hermes("pairing", "approve", code)
    assert refused.returncode == 1
    assert (
        "No one is waiting with this code: it is mistyped, older than an hour, or already used."
        in refused.stderr
    )


def test_guessing_ends_after_five(private_home: Path) -> None:
    """Each try is a process of its own, and still they are counted; the right code must wait, too."""
    code = code_for(private_home)
    for wrong in range(5):
        assert "No one is waiting" in hermes("pairing", "approve", f"WRONG{wrong}").stderr
    locked = hermes("pairing", "approve", code)
    assert locked.returncode == 1
    assert locked.stderr.startswith("hermes: Too many wrong codes were tried")
    assert "Traceback" not in locked.stderr


@pytest.mark.parametrize("wrong", ["ada", "-5", "10.0", "a b"])
def test_an_unknown_id_is_refused(private_home: Path, wrong: str) -> None:
    """The error says where to find the ids."""
    refused = hermes("pairing", "revoke", "telegram", "--", wrong)
    assert refused.returncode == 1
    assert f"{wrong} was not approved on telegram; `hermes pairing people` shows the ids" in refused.stderr


def test_revoked_but_named_in_the_file(private_home: Path) -> None:
    """The command says that hermes.yaml still admits the person."""
    approved = hermes("pairing", "approve", code_for(private_home, BOB, "telegram/work"))
    assert "`hermes pairing revoke telegram/work 1002`" in approved.stdout
    assert "add 1002 to `platforms.telegram.bots.work.admins`" in approved.stdout
    (private_home / "hermes.yaml").write_text("platforms: {telegram: {bots: {work: {admins: [1002]}}}}\n")
    revoked = hermes("pairing", "revoke", "telegram/work", "1002")
    assert revoked.returncode == 0
    assert "hermes.yaml still admits 1002" in revoked.stdout


async def test_beside_a_running_hermes(private_home: Path) -> None:
    """Neither waits for the other: approved from here, let in over there at once."""
    async with running_hermes(private_home, {}):
        gateway = await SqliteStore.open(private_home / "state.db")
        code = await Pairing(gateway.access).request("telegram", BOB)
        assert code is not None
        gate = Gate("telegram", BotConfig(), gateway.access)
        assert await gate.verdict(BOB, Place("1002")) == "stranger"
        approved = await asyncio.to_thread(hermes, "pairing", "approve", code.code)
        assert approved.returncode == 0, approved.stderr
        assert await gate.verdict(BOB, Place("1002")) == "yes"
        revoked = await asyncio.to_thread(hermes, "pairing", "revoke", "telegram", "1002")
        assert revoked.returncode == 0, revoked.stderr
        assert await gate.verdict(BOB, Place("1002")) == "stranger"
        await gateway.close()


def test_help_says_what_it_is_for() -> None:
    """A newcomer reads where a code comes from and what it opens."""
    shown = " ".join(hermes("pairing", "--help").stdout.split())
    assert "A person whom a bot does not know gets a code from it" in shown
    assert "may then talk to this bot in a direct chat, but not in groups" in shown
