"""Summaries: written by a model where one answers, else extracted from the messages."""

from .summariser import Summariser, call_model

__all__ = ["Summariser", "call_model"]
