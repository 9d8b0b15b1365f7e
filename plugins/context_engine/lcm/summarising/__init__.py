"""Summaries: written by a model where one answers, else extracted from the messages."""

from .summariser import Summariser

__all__ = ["Summariser"]
