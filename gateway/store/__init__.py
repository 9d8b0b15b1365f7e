"""Where conversations are kept: in a SQLite file, or in memory for tests.

`sqlite.py` is the front; behind it, a question is a function of `reads.py` on a reader's thread and a change one of
`writes.py`, committed by `writer.py` together with whatever else is waiting. `words.py`, `index.py`, `search.py`
and `snippets.py` are the search, from text to hit.
"""

from gateway.store.memory import MemoryStore
from gateway.store.sqlite.store import SqliteStore

__all__ = ["MemoryStore", "SqliteStore"]
