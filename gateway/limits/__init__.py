"""How much one person may ask for: messages in a minute, messages that wait, money in a day."""

from __future__ import annotations

from gateway.limits.limits import Limits

__all__ = ["Limits"]
