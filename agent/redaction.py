"""Secrets do not belong into summaries: what looks like one becomes `[redacted]` on the way in and on the way out.

A rule fires on a shape that ordinary ids do not have: a provider's own prefix with a long tail, a header, a key block,
or a value that is *called* a password. Plain hashes, UUIDs, order numbers and our own message ids stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from agent.chat_text import call_of
from agent.messages import ChatDict

REDACTED = "[redacted]"
_SHORTEST_KEY = 15
"""Characters that a key of any provider has at least, by the rules below."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Where `pattern` matches, its group `secret` is replaced."""

    what: str
    pattern: re.Pattern[str]
    hints: tuple[str, ...]
    """Lower case, without spaces; one of them is in every text that matches. They make a miss cheap."""
    one_word: bool
    """The pattern never reaches across white space, and what it matches is long."""


def _word(what: str, pattern: str, *hints: str) -> Rule:
    """`KEY` in the pattern stands for a character of a key."""
    whole = rf"(?<!KEY)(?P<secret>{pattern})".replace("KEY", "[A-Za-z0-9_-]")
    return Rule(what, re.compile(whole), hints, one_word=True)


def _phrase(what: str, pattern: str, *hints: str) -> Rule:
    return Rule(what, re.compile(pattern), hints, one_word=False)


RULES = (
    _word("OpenAI, Anthropic or OpenRouter key", r"sk-KEY{16,}", "sk-"),
    _word("Stripe key", r"[sr]k_(?:live|test)_KEY{16,}", "k_live_", "k_test_"),
    _word(
        "GitHub token",
        r"(?:gh[pousr]|github_pat)_KEY{20,}",
        *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    ),
    _word("GitLab token", r"glpat-KEY{16,}", "glpat-"),
    _word("Slack token", r"xox[abeoprs]-KEY{10,}", "xox"),
    _word("AWS access key", r"(?:AKIA|ASIA)[A-Z0-9]{16}(?!KEY)", "akia", "asia"),
    _word("Google key", r"AIzaKEY{30,}", "aiza"),
    _word(
        "key of another provider",
        r"(?:hf_|gsk_|r8_|npm_|pypi-|xai-|pplx-|tvly-|dop_v1_|SG\.)KEY{20,}(?:\.KEY+)?",
        *("hf_", "gsk_", "r8_", "npm_", "pypi-", "xai-", "pplx-", "tvly-", "dop_v1_", "sg."),
    ),
    _word("JSON web token", r"eyJKEY{8,}\.eyJKEY{8,}(?:\.KEY*)?", "eyj"),
    _word("Telegram bot token", r"(?:bot)?\d{6,12}:KEY{35}(?!KEY)", ":"),
    _word("Discord bot token", r"[MNO]KEY{23,27}\.KEY{6}\.KEY{27,40}(?!KEY)", "."),
    _phrase(
        "private key block",
        r"(?s)(?P<secret>-----BEGIN [A-Z ]*PRIVATE KEY[A-Z ]*-----.*?(?:-----END [A-Z ]*PRIVATE KEY[A-Z ]*-----|\Z))",
        "-----begin",
    ),
    _phrase(
        "credentials in a URL",
        r"(?P<before>\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"']{1,80}:)(?P<secret>[^\s/@\"']+)(?=@)",
        "://",
    ),
    _phrase(
        "authorization header",
        r"(?i)(?P<before>\bauthorization[\"']?\s*[:=]\s*[\"']?(?:[a-z]{1,10}\s+)?)(?P<secret>[\w.~+/=-]{8,})",
        "authorization",
    ),
    _phrase("bearer token", r"(?i)(?P<before>\bbearer\s+)(?P<secret>(?=[^\s]*\d)[\w.~+/=-]{12,})", "bearer"),
    _phrase(
        "value called a password",
        r"(?i)(?P<before>\b[\w.-]{0,40}?(?:password|passwd|passphrase|pwd)[\"']?\s*[:=]\s*[\"']?)(?P<secret>[^\s\"',;&]{4,})",
        *("passw", "passphrase", "pwd"),
    ),
    _phrase(
        "value called a key or token",
        r"(?i)(?P<before>\b[\w.-]{0,40}?(?:secret|token|(?:api|access|private|signing|encryption)[_-]?key)[\"']?\s*[:=]\s*"
        r"[\"']?)(?P<secret>[\w.~+/=:-]{10,})",
        *("secret", "token", "api_key", "api-key", "apikey", "access_key", "access-key", "accesskey"),
        *("private_key", "private-key", "privatekey", "signing", "encryption"),
    ),
    _phrase(
        # Only where the value has a digit or a sign in it: "the password is required" says nothing secret.
        "password told in a sentence",
        r"(?i)(?P<before>\b(?:password|passphrase|passwort|kennwort|contraseña) (?:is|ist|es|lautet) [\"'`]?)"
        r"(?P<secret>(?=[^\s\"'`]*[\d!#$%^&*@])[^\s\"'`,;]{4,})",
        *("password", "passphrase", "passwort", "kennwort", "contraseña"),
    ),
)


def redact(text: str, rules: Iterable[Rule] = RULES) -> str:
    """The text with everything that looks like a secret replaced."""
    lower = text.lower()
    for rule in rules:
        if any(hint in lower for hint in rule.hints):
            text = rule.pattern.sub(_without_secret, text)
    return text


def rules_that_may_fire(words: Iterable[str]) -> tuple[Rule, ...]:
    """The rules that can change a text made of these words. Usually none.

    Long histories repeat their vocabulary, so looking at that first is far cheaper than looking at every message.
    """
    words = list(words)
    every_word = "\n".join(words).lower()
    long_words = "\n".join(word for word in words if len(word) >= _SHORTEST_KEY)
    return tuple(
        rule
        for rule in RULES
        if (
            rule.pattern.search(long_words)
            if rule.one_word
            else any(hint in every_word for hint in rule.hints)
        )
    )


def _without_secret(match: re.Match[str]) -> str:
    before = match["before"] if "before" in match.re.groupindex else ""
    return before + REDACTED


def redact_message(message: ChatDict, rules: Iterable[Rule]) -> ChatDict:
    """A copy whose text and tool arguments are free of secrets, or the message itself."""
    rules = tuple(rules)
    if not rules:
        return message
    copy = {**message, "content": _redact_content(message.get("content"), rules)}
    if message.get("tool_calls"):
        copy["tool_calls"] = [
            {
                **call,
                "function": {"name": call_of(call)[0], "arguments": redact(call_of(call)[1], rules)},
            }
            for call in message["tool_calls"]
        ]
    return copy


def _redact_content(content: Any, rules: Iterable[Rule]) -> Any:
    if isinstance(content, str):
        return redact(content, rules)
    return [
        {**part, "text": redact(part["text"], rules)} if "text" in part else part for part in content or ()
    ]
