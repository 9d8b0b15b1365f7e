"""Settings of the limits and of the terminal's sandbox."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from gateway.config.fields import Count, Section, false_to_off, reject_booleans, setting

Dollars = Annotated[float, Field(ge=0.01, allow_inf_nan=False), BeforeValidator(reject_booleans)]
Price = Annotated[float, Field(ge=0.0, allow_inf_nan=False), BeforeValidator(reject_booleans)]


class LimitsConfig(Section):
    """Limits on messages and on cost."""

    messages_per_minute: Count | None = setting(
        default=30,
        reload="live",
        description="Messages accepted from one person per minute, in all chats together. A person who sends more is "
        "told to wait a minute. Empty: no limit.",
    )
    owner_messages_per_minute: Count | None = setting(
        default=300,
        reload="live",
        description="The same for the owner on the chat page and its API. Empty: no limit.",
    )
    waiting_messages: Count = setting(
        default=100,
        reload="live",
        description="Messages of one person that may wait for an answer in one conversation.",
    )
    daily_usd_per_person: Dollars | None = setting(
        default=None,
        reload="live",
        description="The maximum cost of the models for one person per day, in dollars, by the reported cost. Days "
        "begin at midnight, local time. Empty: no limit.",
    )
    daily_usd_total: Dollars | None = setting(
        default=None,
        reload="live",
        description="The maximum cost of the models for all people per day, in dollars. Empty: no limit.",
    )
    unknown_price: Price = setting(
        default=10.0,
        reload="live",
        description="The assumed price of a model whose price is unknown, in dollars per million tokens. Models on "
        "this machine are free.",
    )


Megabytes = Annotated[int, Field(ge=1, le=1_000_000), BeforeValidator(reject_booleans)]
Memory = Annotated[int, Field(ge=64, le=1_000_000), BeforeValidator(reject_booleans)]
Processes = Annotated[int, Field(ge=4, le=10_000), BeforeValidator(reject_booleans)]
Seconds = Annotated[int, Field(ge=1, le=600), BeforeValidator(reject_booleans)]
CpuSeconds = Annotated[int, Field(ge=1, le=100_000), BeforeValidator(reject_booleans)]


class SandboxConfig(Section):
    """The sandbox in which the `terminal` tool runs commands. The limits are per command."""

    mode: Annotated[Literal["bubblewrap", "off"], BeforeValidator(false_to_off)] = setting(
        default="bubblewrap",
        reload="restart",
        description="`bubblewrap` must be installed, or `terminal` runs no command. `off`: no sandbox; a command may "
        "do everything that Hermes may, and the keys below have no effect.",
    )
    network: bool = setting(
        default=False,
        reload="restart",
        description="Whether commands reach the network, including servers on this machine.",
    )
    memory_mb: Memory = setting(
        default=1024,
        reload="restart",
        description="Memory in MB of all processes of a command together, including its /tmp.",
    )
    processes: Processes = setting(
        default=128, reload="restart", description="The maximum number of processes and threads."
    )
    seconds: Seconds = setting(
        default=600, reload="restart", description="The maximum run time of a command."
    )
    cpu_seconds: CpuSeconds = setting(
        default=300, reload="restart", description="CPU time of each process of a command."
    )
    file_mb: Megabytes = setting(
        default=512, reload="restart", description="The largest file in MB that a command may write."
    )
