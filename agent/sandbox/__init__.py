"""Confines what the terminal tool runs."""
