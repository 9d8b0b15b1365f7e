"""Clients around a model: retry, selection, budget, learned windows, cached prefix."""
