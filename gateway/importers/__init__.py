"""Importers of conversations from other programs: one module per file format.

Imported conversations belong to the platform `import`, so that they never mix with live chats. Their ids are derived
from the original ids, so that a second import of a file adds nothing.
"""
