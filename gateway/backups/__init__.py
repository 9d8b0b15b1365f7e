"""Backups: all that Hermes knows in one file that can be carried away, and back.

`making.py` and `restoring.py` are what `hermes backup` and `hermes restore` do; `archive.py` is the file itself. The
database's side, in SQL, is `gateway/store/backup.py`, and how old and new change places is `gateway/store/swap.py`.
"""
