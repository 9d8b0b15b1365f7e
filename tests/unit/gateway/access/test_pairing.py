"""Pairing: a code to hand over, worthless when it is old, used, denied or guessed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.access import ALPHABET, ASKING, Pairing, PairingCode
from gateway.store.access import Access, PairingLocked
from gateway.store.sqlite.store import SqliteStore
from gateway.types import Author
from tests.unit.gateway.access.conftest import Clock

ADA = Author("1001", "Ada")
WRONG = ["AAAAAAAA", "BBBBBBBB", "CCCCCCCC", "DDDDDDDD", "EEEEEEEE"]


async def asked(pairing: Pairing, author: Author = ADA, platform: str = "telegram") -> PairingCode:
    code = await pairing.request(platform, author)
    assert code is not None
    return code


async def guess_wrong(pairing: Pairing, times: int) -> None:
    for wrong in WRONG[:times]:
        assert await pairing.approve(wrong, by="test") is None


# -- asking --------------------------------------------------------------------------------------------------


async def test_a_code_is_short_and_readable(pairing: Pairing, clock: Clock) -> None:
    """Eight unambiguous characters, valid for an hour, and hidden in logs."""
    code = await asked(pairing)
    assert len(code.code) == 8
    assert set(code.code) <= set(ALPHABET)
    assert not set("01OILU") & set(ALPHABET)
    assert code.expires_at == clock.now + 3600
    assert code.code not in repr(code)


async def test_the_owner_sees_who_asks(pairing: Pairing, clock: Clock) -> None:
    """Bot, number, name and times; the code is not there to be seen."""
    code = await asked(pairing)
    (request,) = await pairing.pending()
    assert (request.platform, request.user_id, request.name) == ("telegram", "1001", "Ada")
    assert (request.asked_at, request.expires_at) == (clock.now, code.expires_at)
    assert code.code not in repr(request)


async def test_the_same_code_while_it_is_valid(pairing: Pairing, clock: Clock) -> None:
    """Ten messages of one person give one code, and the bot knows that it has sent it."""
    first = await asked(pairing)
    clock.pass_minutes(59)
    again = await asked(pairing)
    assert (again.code, again.expires_at) == (first.code, first.expires_at)
    assert (first.repeated, again.repeated) == (False, True)
    assert len(await pairing.pending()) == 1


async def test_messages_at_once_come_to_one_code(pairing: Pairing) -> None:
    """A paste cut into pieces arrives in the same moment."""
    codes = await asyncio.gather(*(asked(pairing) for _ in range(10)))
    assert len({code.code for code in codes}) == 1


async def test_each_bot_has_a_code_of_its_own(pairing: Pairing) -> None:
    """An approval is for one bot, so its code is, too."""
    codes = [await asked(pairing, platform=name) for name in ("telegram", "telegram/work", "discord")]
    assert len({code.code for code in codes}) == 3
    approved = await pairing.approve(codes[1].code, by="test")
    assert approved is not None
    assert approved.platform == "telegram/work"


async def test_three_codes_a_day(pairing: Pairing, clock: Clock) -> None:
    """Then silence until the first of them is a day old."""
    codes = set()
    for _ in range(3):
        codes.add((await asked(pairing)).code)
        clock.pass_minutes(61)
    assert len(codes) == 3
    assert await pairing.request("telegram", ADA) is None
    assert await pairing.request("telegram", Author("1002", "Bob")) is not None
    clock.pass_minutes(24 * 60 - 3 * 61)
    assert await pairing.request("telegram", ADA) is not None


async def test_a_crowd_keeps_nobody_out(pairing: Pairing) -> None:
    """Strangers with open codes do not block a newcomer: the oldest code gives way, and only on the same platform."""
    crowd = [Author(str(number), "one of many") for number in range(1, ASKING.pending + 1)]
    elsewhere = await pairing.request("discord", crowd[0])
    codes = [await asked(pairing, author) for author in crowd]

    newcomer = await asked(pairing, ADA)

    assert len(await pairing.pending()) == ASKING.pending + 1
    assert not await pairing.is_open("telegram", codes[0].code)
    assert await pairing.is_open("telegram", codes[1].code)
    assert elsewhere and await pairing.is_open("discord", elsewhere.code)
    assert await pairing.approve(newcomer.code, by="test")


async def test_a_code_that_gave_way_can_be_asked_for_again(pairing: Pairing) -> None:
    """As often in a day as any person may ask."""
    first = await asked(pairing, ADA)
    for number in range(1, ASKING.pending + 1):
        await asked(pairing, Author(str(number), "one of many"))
    assert not await pairing.is_open("telegram", first.code)

    again = await asked(pairing, ADA)

    assert again.code != first.code and not again.repeated
    assert await pairing.approve(first.code, by="test") is None
    assert await pairing.approve(again.code, by="test")


@pytest.mark.parametrize(
    "author",
    [Author("1001", "Robot", is_bot=True), Author("", "Ada"), Author("U0 2", "A"), Author("x" * 129, "A")],
)
async def test_who_gets_no_code(pairing: Pairing, author: Author) -> None:
    """A bot, or an author without a usable id."""
    assert await pairing.request("telegram", author) is None
    assert await pairing.pending() == []


async def test_any_name_can_be_stored(pairing: Pairing) -> None:
    """Names are what strangers type."""
    await asked(pairing, Author("1001", "x\ud800" * 5000))
    (request,) = await pairing.pending()
    assert len(request.name) == 64


async def test_after_a_restart_a_new_code_takes_the_place_of_the_old(people: Access, clock: Clock) -> None:
    """Codes are stored as digests, so the old one cannot be said again; only one is ever good."""
    first = await asked(Pairing(people, clock=clock))
    restarted = Pairing(people, clock=clock)
    second = await asked(restarted)
    assert second.code != first.code
    assert len(await restarted.pending()) == 1
    assert await restarted.approve(first.code, by="test") is None
    assert await restarted.approve(second.code, by="test")


async def test_after_a_restart_one_of_a_crowd_still_gets_a_code(people: Access, clock: Clock) -> None:
    """A new code replaces only the person's own code."""
    crowd = [Author(str(number), "one of many") for number in range(1, ASKING.pending + 1)]
    for author in crowd:
        await asked(Pairing(people, clock=clock), author)
    restarted = Pairing(people, clock=clock)
    assert await restarted.request("telegram", crowd[3]) is not None
    assert len(await restarted.pending()) == ASKING.pending


async def test_restarts_do_not_reset_the_count(people: Access, clock: Clock) -> None:
    """The fourth code of a day is one too many, whichever process gave the others."""
    for _ in range(3):
        await asked(Pairing(people, clock=clock))
    assert await Pairing(people, clock=clock).request("telegram", ADA) is None


async def test_no_code_is_on_the_disk(pairing: Pairing, database: Path) -> None:
    """A reader of the database cannot get access."""
    code = await asked(pairing)
    stored = await asyncio.to_thread(
        lambda: b"".join(file.read_bytes() for file in database.parent.iterdir())
    )
    assert b"Ada" in stored
    assert code.code.encode() not in stored


# -- approving -----------------------------------------------------------------------------------------------


async def test_an_approved_person_is_listed(pairing: Pairing, people: Access, clock: Clock) -> None:
    """With who let them in and when; they are pending no more."""
    code = await asked(pairing)
    clock.pass_minutes(5)
    paired = await pairing.approve(code.code, by="owner")
    assert await pairing.approved() == [paired]
    assert paired is not None
    assert (paired.platform, paired.user_id, paired.name) == ("telegram", "1001", "Ada")
    assert (paired.approved_by, paired.approved_at) == ("owner", clock.now)
    assert await people.is_approved("telegram", "1001")
    assert await pairing.pending() == []


@pytest.mark.parametrize(
    "typed",
    ["{0}{1}", "{0}-{1}", " {0} {1}\n", "{0}\u2013{1}", "{0}\u00a0{1}"],
    ids=["plain", "dash", "spaces", "long dash", "hard space"],
)
@pytest.mark.parametrize("lower", [False, True])
async def test_however_a_code_is_typed(pairing: Pairing, typed: str, lower: bool) -> None:
    """Case, spaces and dashes do not matter."""
    code = (await asked(pairing)).code
    text = typed.format(code[:4], code[4:])
    assert await pairing.approve(text.lower() if lower else text, by="test")


async def test_a_code_expires(pairing: Pairing, clock: Clock) -> None:
    """After an hour the code is unknown, and no request is pending."""
    code = await asked(pairing)
    clock.pass_minutes(60)
    assert await pairing.approve(code.code, by="test") is None
    assert not await pairing.deny(code.code)
    assert await pairing.pending() == []
    assert await pairing.approved() == []


async def test_a_code_works_once(pairing: Pairing) -> None:
    """After a revocation, the old code gives no access."""
    code = (await asked(pairing)).code
    assert await pairing.approve(code, by="test")
    assert await pairing.revoke("telegram", "1001")
    assert await pairing.approve(code, by="test") is None
    assert await pairing.approved() == []


async def test_a_denied_code_is_worthless(pairing: Pairing) -> None:
    """The person can ask again and gets another."""
    code = (await asked(pairing)).code
    assert await pairing.deny(code.lower())
    assert not await pairing.deny(code)
    assert await pairing.approve(code, by="test") is None
    assert (await asked(pairing)).code != code


async def test_revoking(pairing: Pairing, people: Access) -> None:
    """Only who was approved, and only there."""
    await pairing.approve((await asked(pairing)).code, by="test")
    assert not await pairing.revoke("discord", "1001")
    assert not await pairing.revoke("telegram", "1002")
    assert not await pairing.revoke("telegram", "Ada")
    assert await people.is_approved("telegram", "1001")
    assert await pairing.revoke("telegram", "1001")
    assert not await people.is_approved("telegram", "1001")
    assert not await pairing.revoke("telegram", "1001")


async def test_somebody_can_be_approved_again(pairing: Pairing) -> None:
    """The later approval counts; a person is listed once."""
    await pairing.approve((await asked(pairing)).code, by="first")
    await pairing.approve((await asked(pairing, Author("1001", "Ada L."))).code, by="second")
    (paired,) = await pairing.approved()
    assert (paired.name, paired.approved_by) == ("Ada L.", "second")


# -- guessing ------------------------------------------------------------------------------------------------


async def test_five_wrong_codes_lock_everything(pairing: Pairing, clock: Clock) -> None:
    """Even the right code, for ten minutes; then it works again."""
    code = (await asked(pairing)).code
    await guess_wrong(pairing, 5)
    with pytest.raises(PairingLocked, match=r"Too many wrong codes .* try again later. \(10 min\)") as locked:
        await pairing.approve(code, by="test")
    assert locked.value.until == clock.now + 600
    clock.pass_minutes(9.9)
    with pytest.raises(PairingLocked):
        await pairing.approve(code, by="test")
    clock.pass_minutes(0.1)
    assert await pairing.approve(code, by="test")


async def test_four_wrong_codes_do_not(pairing: Pairing) -> None:
    """People mistype."""
    code = (await asked(pairing)).code
    await guess_wrong(pairing, 4)
    assert await pairing.approve(code, by="test")


async def test_a_right_code_does_not_forgive_wrong_ones(pairing: Pairing) -> None:
    """Otherwise a person with a friend's code could guess for ever."""
    code = (await asked(pairing)).code
    await guess_wrong(pairing, 4)
    await pairing.approve(code, by="test")
    await guess_wrong(pairing, 1)
    with pytest.raises(PairingLocked):
        await pairing.approve("FFFFFFFF", by="test")


async def test_wrong_codes_far_apart_do_not_lock(pairing: Pairing, clock: Clock) -> None:
    """One guess every three minutes is not an attack: five take longer than ten minutes."""
    for _ in range(12):
        await guess_wrong(pairing, 1)
        clock.pass_minutes(3)


async def test_the_window_slides(pairing: Pairing, clock: Clock) -> None:
    """Four at the end of one ten minutes and one at the start of the next are five within ten."""
    await guess_wrong(pairing, 1)
    clock.pass_minutes(9)
    await guess_wrong(pairing, 3)
    clock.pass_minutes(2)
    await guess_wrong(pairing, 2)
    with pytest.raises(PairingLocked):
        await pairing.approve("FFFFFFFF", by="test")


async def test_trying_on_does_not_prolong_the_lock(pairing: Pairing, clock: Clock) -> None:
    """The owner is locked out for at most ten minutes."""
    await guess_wrong(pairing, 5)
    for _ in range(9):
        clock.pass_minutes(1)
        with pytest.raises(PairingLocked):
            await pairing.approve("FFFFFFFF", by="test")
    clock.pass_minutes(1)
    await guess_wrong(pairing, 4)


async def test_an_expired_code_counts_as_wrong(pairing: Pairing, clock: Clock) -> None:
    """It tells a guesser nothing, so it is treated like any other."""
    code = (await asked(pairing)).code
    clock.pass_minutes(61)
    for _ in range(5):
        assert await pairing.approve(code, by="test") is None
    with pytest.raises(PairingLocked):
        await pairing.approve(code, by="test")


async def test_a_restart_does_not_lift_the_lock(database: Path, clock: Clock) -> None:
    """Wrong codes are counted in the database, one process after the other."""
    for wrong in WRONG:
        store = await SqliteStore.open(database)
        assert await Pairing(store.access, clock=clock).approve(wrong, by="test") is None
        await store.close()
    store = await SqliteStore.open(database)
    with pytest.raises(PairingLocked):
        await Pairing(store.access, clock=clock).approve("FFFFFFFF", by="test")
    await store.close()


# -- at the same time ----------------------------------------------------------------------------------------


async def test_a_code_is_approved_by_one_of_two(two_processes: tuple[Pairing, Pairing]) -> None:
    """The button in the chat and the command line in the same moment: one of them did it."""
    gateway, command_line = two_processes
    for number in range(1, 5):  # a fifth wrong code, the loser's, would lock
        code = (await asked(gateway, Author(str(number), "Ada"))).code
        results = await asyncio.gather(
            gateway.approve(code, by="button"), command_line.approve(code, by="command line")
        )
        assert sum(result is not None for result in results) == 1


async def test_many_approvals_from_two_processes(two_processes: tuple[Pairing, Pairing]) -> None:
    """No request is lost, and no process finds the database locked."""
    gateway, command_line = two_processes
    codes = [(await asked(gateway, Author(str(number), "Ada"))).code for number in range(1, 21)]
    results = await asyncio.gather(
        *(two_processes[number % 2].approve(code, by="test") for number, code in enumerate(codes))
    )
    assert all(results)
    assert len(await command_line.approved()) == 20
    assert await gateway.pending() == []


async def test_guesses_at_once_are_all_counted(two_processes: tuple[Pairing, Pairing]) -> None:
    """Fifty tries in one moment from two processes: five are heard."""
    tries = [two_processes[number % 2].approve(f"WRONG{number:03}", by="test") for number in range(50)]
    results = await asyncio.gather(*tries, return_exceptions=True)
    assert results.count(None) == 5
    assert sum(isinstance(result, PairingLocked) for result in results) == 45


# -- a clock that is set back --------------------------------------------------------------------------------


async def test_a_lock_does_not_last_as_long_as_the_clock_was_wrong(pairing: Pairing, clock: Clock) -> None:
    """It was a year ahead when the codes were guessed. Nobody waits a year for that; guesses are counted anew."""
    await guess_wrong(pairing, 5)
    clock.pass_minutes(-365 * 24 * 60)
    await guess_wrong(pairing, 5)
    with pytest.raises(PairingLocked) as locked:
        await pairing.approve("ZZZZZZZZ", by="test")
    assert locked.value.until == clock.now + 600
    clock.pass_minutes(11)
    assert await pairing.approve("ZZZZZZZZ", by="test") is None


async def test_a_code_does_not_last_as_long_as_the_clock_was_wrong(pairing: Pairing, clock: Clock) -> None:
    """It is good for its hour, and whoever asked often may ask again after a day, not after a year."""
    code = await asked(pairing)
    clock.pass_minutes(-365 * 24 * 60)
    assert await pairing.approve(WRONG[0], by="test") is None  # the change of the clock is noticed either way
    clock.pass_minutes(61)
    assert await pairing.approve(code.code, by="test") is None
    for _ in range(2):
        await asked(pairing)
        clock.pass_minutes(61)
    assert await pairing.request("telegram", ADA) is None
    clock.pass_minutes(24 * 60)
    assert await pairing.request("telegram", ADA) is not None
