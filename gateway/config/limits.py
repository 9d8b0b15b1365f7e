"""What can be configured about how much people may ask for, and what it may cost."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from gateway.config.section import Count, Section, refuse_booleans

Dollars = Annotated[float, Field(ge=0.01, allow_inf_nan=False), BeforeValidator(refuse_booleans)]
Price = Annotated[float, Field(ge=0.0, allow_inf_nan=False), BeforeValidator(refuse_booleans)]


class LimitsConfig(Section):
    """How much people may ask for, and what it may cost."""

    messages_per_minute: Count | None = Field(
        default=30,
        description="Messages taken from one person in a minute, in all chats together. Whoever sends more is told to "
        "wait a minute. Empty: any number.",
    )
    owner_messages_per_minute: Count | None = Field(
        default=300,
        description="The same for the owner at the chat page and its API. Empty: any number.",
    )
    waiting_messages: Count = Field(
        default=100, description="Messages of one person that may wait for an answer in one conversation."
    )
    daily_usd_per_person: Dollars | None = Field(
        default=None,
        description="What the models may cost for one person in a day, in dollars, by the cost that is reported. "
        "Days begin at midnight, local time. Empty: no limit.",
    )
    daily_usd_total: Dollars | None = Field(
        default=None,
        description="What they may cost in a day for everybody together, in dollars. Empty: no limit.",
    )
    unknown_price: Price = Field(
        default=10.0,
        description="What a model of unknown price counts against the two limits above, in dollars per million tokens. "
        "Models on this machine are free.",
    )
