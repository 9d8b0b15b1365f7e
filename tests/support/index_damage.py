"""SQL statements that damage the search index, by the kind of damage."""

from __future__ import annotations

A_BLOCK = "id = (SELECT id FROM message_index_data ORDER BY id LIMIT 1 OFFSET 3)"


NOISE = "f5b165224a58b791df6af1d8303e61cdc4bb86c3d1c427103c344c4189eb2f1e7bd5d47e446fcec2"


TOO_MUCH = "a3d811736110e5781bcccea696762e6116c6e9c92d99bf358c2e0718822ce47ca8c74107e66cb0e4"
"""SQLite asks for more memory than there is when it reads this, so Python raises MemoryError."""


DAMAGE = {
    "a block of zeros": f"UPDATE message_index_data SET block = zeroblob(length(block)) WHERE {A_BLOCK}",
    "a block of noise": f"UPDATE message_index_data SET block = x'{NOISE}' WHERE {A_BLOCK}",
    "a block cut short": f"UPDATE message_index_data SET block = substr(block, 1, 20) WHERE {A_BLOCK}",
    "a block of words nobody looks for": """
        UPDATE message_index_data SET block = CAST(substr(block, 1, 100) || zeroblob(length(block) - 100) AS BLOB)
        WHERE id = (
            SELECT id FROM message_index_data WHERE instr(block, CAST('ebra' AS BLOB)) ORDER BY id DESC LIMIT 1 OFFSET 2
        )
    """,
    "a block missing": f"DELETE FROM message_index_data WHERE {A_BLOCK}",
    "no structure": f"UPDATE message_index_data SET block = x'{NOISE}' WHERE id = 10",
    "a structure that names too much": f"UPDATE message_index_data SET block = x'{TOO_MUCH}' WHERE id = 10",
    "no blocks": "DELETE FROM message_index_data",
    "no way in": "DELETE FROM message_index_idx",
    "no settings": "DELETE FROM message_index_config",
    "a table missing": "DROP TABLE message_index_data",
    "messages missing": "DELETE FROM message_index_docsize WHERE id < 10",
    "too far ahead": "UPDATE index_progress SET seq = seq + 100",
    "more than it says": "UPDATE index_progress SET seq = seq - 1",
    "no progress": "DELETE FROM index_progress",
}
