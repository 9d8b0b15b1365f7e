"""The gate: deny by default, ids only, and the same verdict for messages, edits, presses and commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.access import Gate, Pairing
from gateway.config.schema_platforms import BotConfig
from gateway.store.access import Access
from gateway.types import Author, Place
from tests.support.stores import open_at

ADA, BOB, CYD = Author("1001", "Ada"), Author("1002", "Bob"), Author("1003", "Cyd")
DIRECT = Place("1001")
OPEN_GROUP = Place("-500", kind="group", group_id="-500")
OTHER_GROUP = Place("-600", kind="group", group_id="-600")


def gate(people: Access, platform: str = "telegram", **settings: Any) -> Gate:
    return Gate(platform, BotConfig(**settings), people)


async def approve(people: Access, author: Author, platform: str = "telegram") -> None:
    pairing = Pairing(people)
    code = await pairing.request(platform, author)
    assert code is not None
    assert await pairing.approve(code.code, by="test")


async def test_a_bot_without_settings_talks_to_nobody(people: Access) -> None:
    """A stranger may at most ask for access; in a group not even that."""
    fresh = gate(people)
    assert await fresh.verdict(ADA, DIRECT) == "stranger"
    assert await fresh.verdict(ADA, OPEN_GROUP) == "no"


async def test_without_pairing_a_stranger_is_nobody(people: Access) -> None:
    """They hear nothing, not even that there is a bot."""
    assert await gate(people, pairing=False).verdict(ADA, DIRECT) == "no"


async def test_allowed_users_and_admins_may_talk(people: Access) -> None:
    """By id; an admin need not be listed twice."""
    configured = gate(people, allowed_users=(1001,), admins=(1002,))
    verdicts = [await configured.verdict(author, DIRECT) for author in (ADA, BOB, CYD)]
    assert verdicts == ["yes", "yes", "stranger"]
    assert [configured.is_admin(author.id) for author in (ADA, BOB, CYD)] == [False, True, False]


async def test_a_name_opens_nothing(people: Access) -> None:
    """An allowed person's name on another account."""
    configured = gate(people, allowed_users=(1001,), admins=(1001,))
    await approve(people, BOB)
    assert await configured.verdict(Author("9999", "Ada"), DIRECT) == "stranger"
    assert await configured.verdict(Author("9999", "Bob"), DIRECT) == "stranger"
    assert not configured.is_admin("Ada")


async def test_the_chat_of_an_allowed_person_opens_nothing(people: Access) -> None:
    """The gate checks the person, not the place: another person's press or edit in Ada's chat is a stranger's."""
    assert await gate(people, allowed_users=(1001,)).verdict(CYD, DIRECT) == "stranger"


@pytest.mark.parametrize("odd", ["", " ", "1001 ", "10 01", "\n1001", "١٠٠١", "x" * 129])
async def test_an_unusable_id_is_refused(people: Access, odd: str) -> None:
    """Not even a stranger: such an id could never be approved or named."""
    configured = gate(people, allowed_users=(1001,), admins=(1001,), allowed_groups=(-500,))
    assert await configured.verdict(Author(odd, "Ada"), DIRECT) == "no"
    assert await configured.verdict(Author(odd, "Ada"), OPEN_GROUP) == "no"
    assert not configured.is_admin(odd)


@pytest.mark.parametrize("lookalike", ["-1001", "01001", "1001.0", "1_001", "+1001", "u02ab3"])
async def test_ids_are_compared_as_they_are(people: Access, lookalike: str) -> None:
    """An id that merely resembles an allowed one is a stranger's."""
    configured = gate(people, allowed_users=(1001, "U02AB3"), admins=(1001,), group_members="allowed_users")
    assert await configured.verdict(Author(lookalike, "Ada"), DIRECT) == "stranger"
    assert await configured.verdict(Author(lookalike, "Ada"), OPEN_GROUP) == "no"
    assert not configured.is_admin(lookalike)


async def test_ids_with_letters(people: Access) -> None:
    """Users and groups of a service that does not number them."""
    configured = gate(people, "acme", allowed_users=("U02AB3",), admins=("U09ZZ1",), allowed_groups=("C7",))
    ada, group = Author("U02AB3", "Ada"), Place("C7", kind="group", group_id="C7")
    assert await configured.verdict(ada, Place("D1")) == "yes"
    assert await configured.verdict(Author("U5", "Eve"), group) == "yes"
    assert await configured.verdict(ada, Place("C8", kind="group", group_id="C8")) == "no"
    assert configured.is_admin("U09ZZ1") and not configured.is_admin("U02AB3")
    await approve(people, Author("U5", "Eve"), "acme")
    assert await configured.verdict(Author("U5", "Eve"), Place("D2")) == "yes"


async def test_bots_never(people: Access) -> None:
    """Two bots would talk to each other for ever, so no setting allows it."""
    configured = gate(people, allowed_users=(1001,), allowed_groups=(-500,))
    robot = Author("1001", "Ada", is_bot=True)
    assert await configured.verdict(robot, DIRECT) == "no"
    assert await configured.verdict(robot, OPEN_GROUP) == "no"


@pytest.mark.parametrize(
    ("members", "author", "place", "verdict"),
    [
        ("everyone", CYD, OPEN_GROUP, "yes"),
        ("everyone", CYD, OTHER_GROUP, "no"),
        ("everyone", ADA, OTHER_GROUP, "no"),
        ("allowed_users", ADA, OPEN_GROUP, "yes"),
        ("allowed_users", BOB, OPEN_GROUP, "yes"),
        ("allowed_users", CYD, OPEN_GROUP, "no"),
        ("allowed_users", ADA, OTHER_GROUP, "no"),
        ("everyone", ADA, Place("-500", kind="group"), "no"),
        ("everyone", ADA, Place("1001", kind="direct", group_id="-600"), "no"),
        ("everyone", CYD, Place("777", "12", kind="group", group_id="-500"), "yes"),
    ],
)
async def test_groups(people: Access, members: str, author: Author, place: Place, verdict: str) -> None:
    """The group must be listed for every author; its topics and channels come with it."""
    configured = gate(
        people, group_members=members, allowed_users=(1001,), admins=(1002,), allowed_groups=(-500,)
    )
    assert await configured.verdict(author, place) == verdict


async def test_an_approval_is_for_direct_chats(people: Access) -> None:
    """It opens no group, and among the allowed users of an open one it does not count."""
    await approve(people, CYD)
    configured = gate(people, group_members="allowed_users", allowed_groups=(-500,))
    assert await configured.verdict(CYD, DIRECT) == "yes"
    assert await configured.verdict(CYD, OPEN_GROUP) == "no"
    assert await configured.verdict(CYD, OTHER_GROUP) == "no"
    assert not configured.is_admin(CYD.id)


async def test_an_approval_is_for_one_bot(people: Access) -> None:
    """Neither for another bot of the same service nor for the same number elsewhere."""
    await approve(people, CYD, "telegram")
    others = [gate(people, platform) for platform in ("telegram/work", "discord", "Telegram")]
    assert [await other.verdict(CYD, DIRECT) for other in others] == ["stranger"] * 3


async def test_an_approval_outlives_pairing(people: Access) -> None:
    """Switching it off keeps newcomers out, not those who are in."""
    await approve(people, CYD)
    closed = gate(people, pairing=False)
    assert await closed.verdict(CYD, DIRECT) == "yes"
    assert await closed.verdict(ADA, DIRECT) == "no"


async def test_digits_in_the_file_are_the_ids_of_the_service(people: Access) -> None:
    """YAML reads `1001` as a number, and the service sends text."""
    for allowed in (1001, "1001"):
        assert await gate(people, allowed_users=(allowed,)).verdict(ADA, DIRECT) == "yes"


async def test_numbers_beyond_what_a_float_can_tell_apart(people: Access) -> None:
    """Discord ids have 19 digits; one digit off is another person."""
    configured = gate(people, allowed_users=(1234567890123456789,))
    assert await configured.verdict(Author("1234567890123456789", "Ada"), DIRECT) == "yes"
    assert await configured.verdict(Author("1234567890123456788", "Eve"), DIRECT) == "stranger"


async def test_what_another_process_decides_counts_at_once(
    two_processes: tuple[Pairing, Pairing], store_location: Path | str
) -> None:
    """Approved by `hermes pairing` while the gateway runs, and revoked while a message waits for its turn."""
    _, command_line = two_processes
    reading = await open_at(store_location, read_only=True)
    running = gate(reading.access)
    code = await command_line.request("telegram", CYD)
    assert code is not None
    assert await running.verdict(CYD, DIRECT) == "stranger"
    await command_line.approve(code.code, by="test")
    assert await running.verdict(CYD, DIRECT) == "yes"
    assert await command_line.revoke("telegram", CYD.id)
    assert await running.verdict(CYD, DIRECT) == "stranger"
    await reading.close()
