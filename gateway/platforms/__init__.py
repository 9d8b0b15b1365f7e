"""Platforms where people talk to Hermes: one folder each, registered in `registry.py`."""
