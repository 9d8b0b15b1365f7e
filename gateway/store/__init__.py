"""The store of the gateway: its ports and the SQLite database behind them."""

from gateway.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
