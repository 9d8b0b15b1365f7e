"""`/whoami`."""

from __future__ import annotations

import pytest

from agent.store import Address
from tests.support.command_harness import CommandHarness, Person

TELEGRAM = "Your id: `4711` (for `allowed_users` and `admins`)"


@pytest.mark.parametrize(
    ("who", "lines"),
    [
        (
            Person(Address("telegram", "4711"), "telegram:4711", "telegram:4711"),
            ["Platform: telegram", TELEGRAM, "This chat: `4711`", "You are not an admin."],
        ),
        (
            Person(
                Address("telegram/work", "-1009", "7"),
                "telegram:group:-1009:7",
                "telegram:4711",
                is_admin=True,
                group="-1009",
            ),
            [
                "Platform: telegram/work",
                TELEGRAM,
                "This group: `-1009` (for `allowed_groups`)",
                "This chat: `-1009`, thread `7`",
                "You are an admin.",
            ],
        ),
        (
            Person(
                Address("discord", "99", "", "4711"), "discord:group:99:by:4711", "discord:4711", group="815"
            ),
            [
                "Platform: discord",
                TELEGRAM,
                "This group: `815` (for `allowed_groups`)",
                "This chat: `99`",
                "You are not an admin.",
            ],
        ),
        (Person(), ["Platform: web", "You: the owner", "This chat: `desk`", "You are an admin."]),
    ],
    ids=["direct", "topic of a group", "server split per person", "owner"],
)
async def test_ids_of_person_group_and_chat(harness: CommandHarness, who: Person, lines: list[str]) -> None:
    assert (await harness.say("/whoami", who)).splitlines() == lines
