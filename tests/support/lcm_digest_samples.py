"""Sample tool results for digest tests."""

from __future__ import annotations

ORDERS = [
    {
        "id": number,
        "customer": {"name": f"Ada {number}", "address": {"city": "London", "zip": None}},
        "items": [{"sku": f"A-{item}", "count": item} for item in range(number % 4)],
        "total": number * 1.5,
        "gift": number % 2 == 0,
        **({"note": "ring twice"} if number % 3 else {}),
    }
    for number in range(300)
]


PYTHON = '''"""Keeps things."""

import re
from dataclasses import dataclass

LIMIT = 10
TEXT = "def not_a_function(): \\d"


@dataclass
class Keeper:
    """Keeps."""

    def keep(
        self,
        thing: str,
        sep: str = "\\n",
    ) -> None:
        return None

    class Inner:
        pass


async def main(*names: str) -> int:
    def hidden():
        pass
    return 0
'''
