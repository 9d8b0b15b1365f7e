"""A host that talks without end, and tells on its standard output what it is about to do. It is there to be killed.

It keeps its list in a file, as Hermes keeps it in a database: published at once, after the engine has returned.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.support.extractive_summariser import extractive_summary
from tests.support.lcm_chats import Chat, Host

WINDOW = 2_000


def turn(number: int) -> list[Chat]:
    """Some are alike, some are large."""
    asked = {"role": "user", "content": f"ok {number % 3} " * (number % 40)}
    answered = {"role": "assistant", "content": f"Answer {number}."}
    if number % 2:
        return [asked, answered]
    call = {"id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    seen = {"role": "tool", "tool_call_id": call["id"], "content": f"line {number} " * (number % 7) ** 4}
    return [asked, {"role": "assistant", "content": None, "tool_calls": [call]}, seen, answered]


def load(home: Path, host: Host) -> int:
    """Number of turns so far."""
    kept = home / "host.json"
    if not kept.exists():
        return 0
    state = json.loads(kept.read_text())
    host.messages, host.session, host._numbers = state["messages"], state["session"], state["numbers"]
    host.restart()
    return int(state["turns"])


def keep(home: Path, host: Host, turns: int) -> None:
    state = {"messages": host.messages, "session": host.session, "numbers": host._numbers, "turns": turns}
    fresh = home / "host.json.new"
    fresh.write_text(json.dumps(state))
    fresh.replace(home / "host.json")


def tell(what: str) -> None:
    os.write(1, f"{what}\n".encode())


def summarise(prompt: str, max_tokens: int) -> str:
    tell("asked")
    return extractive_summary(prompt, max_tokens)


def talk(home: Path) -> None:
    host = Host(home, WINDOW, summarize=summarise)
    turns = load(home, host)
    while True:
        host.say(*turn(turns))
        turns += 1
        keep(home, host, turns)
        tell("said")
        host.look()
        tell("looked")
        if turns % 3 == 0:
            host.compress()
            tell("compacted")
            keep(home, host, turns)
            tell("published")


if __name__ == "__main__":
    talk(Path(sys.argv[1]))
