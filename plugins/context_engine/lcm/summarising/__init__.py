"""Writes the summaries of the graph: with a model where one answers, and by plain extraction where none does."""

from .measure import size_of
from .summariser import Summariser
from .without_a_model import without_a_model

__all__ = ["Summariser", "size_of", "without_a_model"]
