"""Every number of seconds that showing a turn depends on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    first_text: float = 0.4
    """An answer that is whole by then is sent once, as it should look; of any other the beginning is shown."""
    gap: float = 1.0
    """Between the messages of one text, where the pace of edits does not ask for less."""
    slowest: float = 30.0
    """The longest pause between edits, however often a service asks to slow down."""

    typing_after: float = 0.2
    """Quicker answers need no sign."""
    typing_every: float = 4.5
    """Services show the sign for five seconds or more."""
    typing_cooldown: float = 30.0
    """After a sign that could not be given."""

    status_after: float = 1.0
    """Tools that are done sooner are not mentioned."""
    looked_away: float = 30.0
    """Whoever waits longer has put the phone away: the answer has to be a new message, or it makes no sound."""

    patience: float = 900.0
    """What should arrive is tried for so long."""
    endurance: float = 86_400.0
    """What is in the outbox must arrive: services and networks come back. But one message that a service can never take
    must not hold back the others for ever."""
    uploads: int = 4
    """Of one file, if each may have arrived."""
    first_backoff: float = 1.0
    longest_backoff: float = 16.0
    least_pause: float = 0.05
    """Even where a service asks for none."""

    telling: float = 120.0
    """What somebody waits for a sentence outside any turn to be told."""
    idle: float = 900.0
    """A conversation in which nothing happens is watched for so long."""
    closing: float = 5.0
    """What a shutdown waits for texts to be brought to their end."""
