"""Redaction: replaces what looks like a secret by `[redacted]` in logs, summaries, answers and exports.

A rule finds a shape that ordinary ids do not have, or a random value that is *called* a password or a key. Hashes,
UUIDs, order numbers and code that merely speaks of passwords stay. Redaction prevents accidents: it does not stop a
person who writes a key backwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agent.messages import ChatDict, call_of
from agent.redaction import assigned, detect_secrets_rules, shapes
from agent.redaction.known import keeping_secret, known_rules
from agent.redaction.rules import REDACTED, Rule

__all__ = [
    "REDACTED",
    "Rule",
    "all_rules",
    "keeping_secret",
    "own_rules",
    "redact",
    "redact_message",
    "rules_for",
    "rules_that_may_fire",
]

_MIN_KEY_LENGTH = 15

_OURS = (*shapes.RULES, *assigned.RULES)


def own_rules() -> tuple[Rule, ...]:
    """Return our rules, which are fast: for log lines, and for what is shown while something happens."""
    return (*known_rules(), *_OURS)


def all_rules() -> tuple[Rule, ...]:
    """Return our rules and the library's. Loading the library takes a moment: call this in a thread."""
    return (*own_rules(), *detect_secrets_rules.RULES)


def redact(text: str, rules: Iterable[Rule] | None = None) -> str:
    """Replace everything that looks like a secret; by all rules, if none are given."""
    for rule in rules_for(text, all_rules() if rules is None else rules):
        text = _without(text, rule)
    return text


def rules_for(text: str, rules: Iterable[Rule]) -> list[Rule]:
    """Return the rules with a hint in the text. Plain loops: this is nearly all that most log lines cost."""
    lower = text.lower()
    chosen = []
    for rule in rules:
        for hint in rule.hints:
            if hint in lower:
                chosen.append(rule)
                break
    return chosen


def _without(text: str, rule: Rule) -> str:
    parts: list[str] = []
    end = 0
    for start, stop in rule.find(text):
        # As many lines, so that line numbers stay the same.
        lines = (REDACTED if line.strip() else line for line in text[start:stop].split("\n"))
        parts += [text[end:start], "\n".join(lines)]
        end = stop
    return "".join((*parts, text[end:])) if parts else text


def rules_that_may_fire(words: Iterable[str]) -> tuple[Rule, ...]:
    """Return the rules that can change a text with these words: usually none. Cheaper than searching every message."""
    words = list(words)
    every_word = "\n".join(words).lower()
    long_words = "\n".join(word for word in words if len(word) >= _MIN_KEY_LENGTH)
    return tuple(
        rule
        for rule in all_rules()
        if any(hint in every_word for hint in rule.hints)
        and (not rule.one_word or any(True for _ in rule.find(long_words)))
    )


def redact_message(message: ChatDict, rules: Iterable[Rule]) -> ChatDict:
    """Return a copy without secrets in text and tool arguments, or the message itself."""
    rules = tuple(rules)
    if not rules:
        return message
    copy = {**message, "content": _redact_content(message.get("content"), rules)}
    if message.get("tool_calls"):
        calls = ((call, *call_of(call)) for call in message["tool_calls"])
        copy["tool_calls"] = [
            {**call, "function": {"name": name, "arguments": redact(arguments, rules)}}
            for call, name, arguments in calls
        ]
    return copy


def _redact_content(content: Any, rules: Iterable[Rule]) -> Any:
    if isinstance(content, str):
        return redact(content, rules)
    return [
        {**part, "text": redact(part["text"], rules)} if "text" in part else part for part in content or ()
    ]
