"""Backups: the whole state of Hermes in one archive.

`create.py` and `restore.py` do the work of `hermes backup` and `hermes restore`; `archive.py` defines the file.
`gateway/store/sqlite/backup.py` copies the database, `gateway/store/sqlite/file_swap.py` swaps old and new files.
"""
