"""Secrets that are recognised by their name: `password=...`, `"api_key": "..."`, an Authorization header."""

from __future__ import annotations

import re

from agent.redaction.rules import (
    Rule,
    has_digit,
    is_expression,
    is_placeholder,
    is_reference,
    looks_random,
    named,
    names_a_secret,
    phrase,
)

_PASSWORDS = ("password", "passwd", "passphrase", "passwort", "pwd")
_KEYS = (
    "secret",
    "token",
    *('"auth', "_auth"),
    *(
        f"{what}{gap}key"
        for what in ("api", "access", "account", "auth", "encryption", "private", "secret", "signing")
        for gap in ("", "_", "-")
    ),
)
_IS = r"\\{0,3}[\"']?\]?[ \t]{0,3}(?::=|=>|[:=])(?!=)[ \t]{0,8}(?P<quote>\\{0,3}[\"'`])?"
"""Separators between a name and its value in code, JSON (also inside JSON), YAML and command lines."""
_PAGE_TOKEN = re.compile(r"(?i)(?:page|next|continuation|cursor|sync|start|marker)[_-]?token\Z")
_HOLDS_A_SECRET = re.compile(
    r"(?:PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN"
    r"|(?:API|ACCESS|ACCOUNT|AUTH|ENCRYPTION|MASTER|PRIVATE|SECRET|SIGNING)_?KEY)\Z"
)
_SIGN = re.compile(r"[\d!#$%^&*@]")
_ENDS_A_SENTENCE = ".!?%:)"
_SHORTEST_TOLD = 4
_OPTION = re.compile(r"[\"'`]?--?[a-z][a-z-]*")


def _is_password(match: re.Match[str]) -> bool:
    value = match["secret"]
    if is_placeholder(value):
        return False
    if match["quote"]:
        return not (value.istitle() and value.isalpha()) and not names_a_secret(value)
    # `pwd` is also where one is.
    return not is_reference(value) and not is_expression(value, match) and not value.startswith(("/", "~"))


def _is_key(match: re.Match[str]) -> bool:
    value = match["secret"]
    if not looks_random(value) or is_reference(value) or is_placeholder(value):
        return False
    is_page = _PAGE_TOKEN.search(match.string, max(0, match.start() - 25), match.start()) is not None
    return not is_page and not is_expression(value, match)


def _is_given(match: re.Match[str]) -> bool:
    """Accept the value of a variable or an option unless it is plainly something else."""
    value = match["secret"]
    if is_placeholder(value) or value.isupper() or value.startswith(("/", "~", "-")):
        return False
    return not value.endswith(",") and not (is_reference(value) and names_a_secret(value))


def _is_variable(match: re.Match[str]) -> bool:
    """Accept any value if the name ends in a word such as PASSWORD; other names need a random value."""
    value = match["secret"]
    if value.isdecimal() or not (looks_random(value) or _HOLDS_A_SECRET.search(match["name"])):
        return False
    return _is_given(match)


def _is_option(match: re.Match[str]) -> bool:
    name = match.string[max(0, match.start() - 60) : match.start()].split()[-1]
    return _OPTION.fullmatch(name) is not None and _is_given(match) and not is_reference(match["secret"])


def _is_credential(match: re.Match[str]) -> bool:
    value = match["secret"]
    if match["scheme"].strip().lower() == "basic":
        return value != value.lower() and not is_placeholder(value)
    return _is_bearer(match)


def _is_bearer(match: re.Match[str]) -> bool:
    value = match["secret"]
    if is_reference(value) or is_placeholder(value):
        return False
    return has_digit(value) or looks_random(value)


def _is_random(match: re.Match[str]) -> bool:
    return looks_random(match["secret"])


def _is_told(match: re.Match[str]) -> bool:
    return not is_placeholder(match["secret"])


def _is_said(match: re.Match[str]) -> bool:
    """Accept words with a digit or a sign: "the password is required" tells no secret."""
    word = match["secret"].rstrip(_ENDS_A_SENTENCE)
    return len(word) >= _SHORTEST_TOLD and _SIGN.search(word) is not None and _is_told(match)


RULES: tuple[Rule, ...] = (
    named(
        "authorization header",
        ["authorization"],
        r"\\{0,3}[\"']?[ \t]*[:=][ \t]*\\{0,3}[\"']?(?P<scheme>(?:[A-Za-z]{1,10}[ \t]+)?)(?P<secret>[\w.~+/=-]{8,})",
        confirm=_is_credential,
    ),
    named("bearer token", ["bearer"], r"[ \t]+(?P<secret>[\w.~+/=-]{12,})", confirm=_is_bearer),
    named(
        "cookie",
        ["cookie"],
        r"[\"']?[ \t]*:[ \t]*[\"']?"
        r"(?P<secret>[\w.-]{1,80}=[^\s;\"'<>]{1,4000}(?:; ?[\w.-]{1,80}=[^\s;\"'<>]{1,4000})*+)",
        confirm=_is_random,
        looked_at=1_000,
    ),
    named(
        "value called a password",
        _PASSWORDS,
        _IS + r"(?P<secret>(?(quote)[^\s\"'`\\]{4,200}(?=(?P=quote))|[^\s\"'`,;&()\[\]{}<>\\]{4,200}))",
        confirm=_is_password,
    ),
    named("value called a key or token", _KEYS, _IS + r"(?P<secret>[\w.~+/=:-]{10,})", confirm=_is_key),
    named(
        "key of Cloudant or SoftLayer",
        ["cloudant", "softlayer"],
        r"(?i:[_-]?(?:api)?[_-]?(?:key|pwd?|password|pass|token)" + _IS + r"|\.com/soap/v3(?:\.1)?/)"
        r"(?P<secret>[A-Za-z0-9]{64}|[a-z]{24})(?![A-Za-z0-9])",
        confirm=_is_told,
    ),
    named(
        "option of a command",
        ["password", "passwd", "passphrase", "token", "secret", "api-key"],
        r"[= ][\"']?(?P<secret>[^\s\"'`|;&<>\]\\]{4,})",
        confirm=_is_option,
    ),
    phrase(
        "variable of an environment",
        r"(?m)^[ \t]*(?:export[ \t]+|set[ \t]+|-[ \t]+|ENV[ \t]+)?(?P<name>[A-Z][A-Z0-9_]{0,60}?"
        r"(?:PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|_KEY)[A-Z0-9_]{0,20})=[\"']?(?P<secret>[^\s\"'`]{6,})",
        *("password", "passwd", "passphrase", "secret", "token", "_key"),
        confirm=_is_variable,
    ),
    named(
        "line of a .netrc",
        ["login "],
        r"\S{1,100}\s{1,20}password\s{1,20}(?P<secret>\S{1,200})",
        confirm=_is_told,
        looked_at=400,
    ),
    named(
        "password told in a sentence",
        ["password", "passphrase", "passwort", "kennwort", "contraseña", "mot de passe"],
        r" (?:is|ist|es|est|lautet) [\"'`]?(?P<secret>[^\s\"'`,;]{4,})",
        confirm=_is_said,
    ),
)
