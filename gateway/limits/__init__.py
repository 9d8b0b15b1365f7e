"""Limits per person: messages per minute, queued messages, cost per day."""

from __future__ import annotations

from gateway.limits.limits import Limits

__all__ = ["Limits"]
