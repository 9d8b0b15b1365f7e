"""What can be configured about the sandbox of the terminal."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from gateway.config.fields import Count, Section, false_to_off, reject_booleans, setting

Dollars = Annotated[float, Field(ge=0.01, allow_inf_nan=False), BeforeValidator(reject_booleans)]
Price = Annotated[float, Field(ge=0.0, allow_inf_nan=False), BeforeValidator(reject_booleans)]


class LimitsConfig(Section):
    """How much people may ask for, and what it may cost."""

    messages_per_minute: Count | None = setting(
        default=30,
        reload="live",
        description="Messages taken from one person in a minute, in all chats together. Whoever sends more is told to "
        "wait a minute. Empty: any number.",
    )
    owner_messages_per_minute: Count | None = setting(
        default=300,
        reload="live",
        description="The same for the owner at the chat page and its API. Empty: any number.",
    )
    waiting_messages: Count = setting(
        default=100,
        reload="live",
        description="Messages of one person that may wait for an answer in one conversation.",
    )
    daily_usd_per_person: Dollars | None = setting(
        default=None,
        reload="live",
        description="What the models may cost for one person in a day, in dollars, by the cost that is reported. "
        "Days begin at midnight, local time. Empty: no limit.",
    )
    daily_usd_total: Dollars | None = setting(
        default=None,
        reload="live",
        description="What they may cost in a day for everybody together, in dollars. Empty: no limit.",
    )
    unknown_price: Price = setting(
        default=10.0,
        reload="live",
        description="What a model of unknown price counts against the two limits above, in dollars per million tokens. "
        "Models on this machine are free.",
    )


Megabytes = Annotated[int, Field(ge=1, le=1_000_000), BeforeValidator(reject_booleans)]
Memory = Annotated[int, Field(ge=64, le=1_000_000), BeforeValidator(reject_booleans)]
Processes = Annotated[int, Field(ge=4, le=10_000), BeforeValidator(reject_booleans)]
Seconds = Annotated[int, Field(ge=1, le=600), BeforeValidator(reject_booleans)]
CpuSeconds = Annotated[int, Field(ge=1, le=100_000), BeforeValidator(reject_booleans)]


class SandboxConfig(Section):
    """Where the commands of the terminal run. The limits are for each command."""

    mode: Annotated[Literal["bubblewrap", "off"], BeforeValidator(false_to_off)] = setting(
        default="bubblewrap",
        reload="restart",
        description="`bubblewrap` must be installed, or `terminal` refuses to run anything. `off`: no sandbox; a "
        "command may do whatever Hermes itself may, and the keys below count for nothing.",
    )
    network: bool = setting(
        default=False,
        reload="restart",
        description="Whether commands reach the network: all of it, with whatever listens on this machine.",
    )
    memory_mb: Memory = setting(
        default=1024,
        reload="restart",
        description="Memory of all its processes together, with what it puts into /tmp.",
    )
    processes: Processes = setting(
        default=128, reload="restart", description="Processes and threads at the same time."
    )
    seconds: Seconds = setting(default=600, reload="restart", description="The longest a command may take.")
    cpu_seconds: CpuSeconds = setting(
        default=300, reload="restart", description="Computing time of each of its processes."
    )
    file_mb: Megabytes = setting(default=512, reload="restart", description="The largest file it may write.")
