"""Keeps a conversation inside the model's window: engines, compaction, branches."""
