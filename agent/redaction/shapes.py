"""Secrets that are known by their shape: a provider's prefix with a long tail, a bot's token, a private key."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agent.redaction.rules import Rule, Span, is_placeholder, looks_random, phrase, shape

_KEY = "A-Za-z0-9_-"
_LONGEST_NUMBER, _SHORTEST_NUMBER = 12, 6


def _random(match: re.Match[str]) -> bool:
    return looks_random(match[0])


def _telegram(text: str) -> Iterator[Span]:
    """Find a number, a colon and 35 characters, or about as many after AA, from the colon on."""
    for match in _TELEGRAM.finditer(text):
        number = _NUMBER.search(text, max(0, match.start() - _LONGEST_NUMBER - 1), match.start())
        if number and len(number[0]) <= _LONGEST_NUMBER:
            yield number.start(), match.end()


_TELEGRAM = re.compile(rf"(?::|%3A)(?:AA[{_KEY}]{{28,43}}|[{_KEY}]{{35}})(?![{_KEY}])")
_NUMBER = re.compile(rf"\d{{{_SHORTEST_NUMBER},}}\Z")


def _discord(text: str) -> Iterator[Span]:
    """Find the bot's id, the time and a signature, each in base64."""
    for match in _DISCORD.finditer(text):
        if (bot := _BOT.search(text, max(0, match.start() - 30), match.start())) is not None:
            yield bot.start(), match.end()


_DISCORD = re.compile(rf"\.[{_KEY}]{{6}}\.[{_KEY}]{{27,40}}(?![{_KEY}])")
_BOT = re.compile(rf"(?<![.{_KEY}])[MNO][{_KEY}]{{23,27}}\Z")


def _is_password(match: re.Match[str]) -> bool:
    secret = match["secret"]
    return not is_placeholder(secret) and secret.lower() not in _EXAMPLES


_EXAMPLES = ("pass", "password", "passwd", "pwd", "secret", "token", "port", "pw", "repo")

_KIND = r"(?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?"
_BREAK = r"[ \t]{0,20}(?:\r?\n|(?:\\r)?\\n)"
_MARGIN = r"[ \t]{0,20}(?:[^\s:]{0,200}:\d+:|\d{1,6}(?=[ \t])|[>|+-])?[ \t]{0,20}"
"""Prefixes that `grep`, `cat -n` or a diff put before a line."""
_DATA = r"(?:[A-Za-z0-9+/=]{1,200}|[A-Za-z-]{1,40}: [^\n\\]{1,200})?(?=[ \t]{0,20}(?:\r?\n|\\|[\"'`]|\Z))"
_BLOCK = re.compile(
    rf"-----BEGIN {_KIND}-----(?P<body>(?:{_BREAK}{_MARGIN}{_DATA})*+)(?P<end>{_BREAK}{_MARGIN}-----END {_KIND}-----)?"
)
_KEY_END = re.compile(rf"-----END {_KIND}-----")
_KEY_LINE = re.compile(rf"{_MARGIN}[A-Za-z0-9+/=]{{1,200}}[ \t]{{0,20}}\r?")
_MIN_KEY_DATA = re.compile(r"[A-Za-z0-9+/=]{30}")


def _private_keys(text: str) -> Iterator[Span]:
    done = 0
    for match in _BLOCK.finditer(text):
        yield from _key_endings(text, done, match.start())
        if match["body"].strip() and (match["end"] or _MIN_KEY_DATA.search(match["body"])):
            yield match.span("body")
        done = match.end()
    yield from _key_endings(text, done, len(text))


def _key_endings(text: str, begin: int, end: int) -> Iterator[Span]:
    """Find the lines above an end mark whose begin mark is missing."""
    for match in _KEY_END.finditer(text, begin, end):
        last = first = text.rfind("\n", begin, match.start())
        while first > begin:
            line = text.rfind("\n", begin, first) + 1 or begin
            if not _KEY_LINE.fullmatch(text, line, first):
                break
            first = line - 1
        if first < last:
            yield max(begin, first + 1), last
        begin = match.end()


RULES: tuple[Rule, ...] = (
    Rule("private key", _private_keys, ("-----begin", "-----end")),
    # `-----BEGIN ` in base64, as in the files of Kubernetes; a certificate would go on with a D.
    *shape("private key in base64", "LS0tLS1CRUdJTiB", tail="(?!D)[A-Za-z0-9+/=]{30,}"),
    *shape("OpenAI, Anthropic or OpenRouter key", "sk-", tail="KEY{16,}", confirm=_random),
    *shape("Stripe key", "sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_", tail="[A-Za-z0-9]{16,}"),
    *shape("GitHub token", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", tail="[A-Za-z0-9]{30,}"),
    *shape("GitHub token", "github_pat_", tail=r"\w{22,}"),
    *shape("GitLab token", "glpat-", tail="KEY{16,}"),
    *shape(
        *("Slack token", "xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-"),
        tail="KEY{10,}",
        confirm=lambda match: any(map(str.isdigit, match[0])),
    ),
    *shape("Twilio key", "AC", "SK", tail="[0-9a-f]{32}(?!KEY)"),
    *shape("AWS access key", "AKIA", "ASIA", tail="[A-Z0-9]{16}(?!KEY)"),
    *shape("Google key", "AIza", "GOCSPX-", "ya29.", tail="KEY{24,}"),
    *shape("Hugging Face, Replicate or npm token", "hf_", "r8_", "npm_", tail="[A-Za-z0-9]{30,}(?!KEY)"),
    *shape(
        "Groq, xAI, Perplexity or Nvidia key",
        "gsk_",
        "xai-",
        "pplx-",
        "nvapi-",
        tail="KEY{32,}",
        confirm=_random,
    ),
    *shape("PyPI token", "pypi-", tail="AgKEY{50,}"),
    *shape("Tavily key", "tvly-", tail="KEY{20,}", confirm=_random),
    *shape("DigitalOcean token", "dop_v1_", "doo_v1_", "dor_v1_", tail="[0-9a-f]{32,}"),
    *shape("SendGrid key", "SG.", tail=r"KEY{16,}\.KEY{16,}"),
    *shape("Shopify token", "shpat_", "shpca_", "shppa_", "shpss_", tail="[0-9a-fA-F]{32}"),
    *shape(
        "Vault, Docker, Grafana or Sentry token", "hvs.", "dckr_pat_", "glsa_", "sntrys_", tail="KEY{20,}"
    ),
    *shape("Notion or Linear token", "ntn_", "lin_api_", tail="[A-Za-z0-9]{32,}"),
    *shape("Atlassian token", "ATATT3x", tail="[A-Za-z0-9_=-]{40,}"),
    *shape("age key", "AGE-SECRET-KEY-1", tail="[A-Z0-9]{40,}"),
    *shape("JSON web token", "eyJ", tail=r"KEY{8,}\.eyJKEY{8,}(?:\.KEY*)?"),
    Rule("Telegram bot token", _telegram, (":", "%3a"), one_word=True),
    # Of any length: an error may quote an address that is cut short.
    phrase("Telegram bot address", r"/bot(?P<secret>\d+(?::|%3A)[^\s/\"'<>]+)", "/bot"),
    Rule("Discord bot token", _discord, (".",), one_word=True),
    phrase("Discord webhook", rf"/api/(?:v\d+/)?webhooks/\d+/(?P<secret>[{_KEY}]{{30,}})", "webhooks/"),
    # Before the credentials: a token may have a password beside it that means nothing.
    phrase("token in a URL", rf"://(?P<secret>[{_KEY}]{{20,200}})(?::[\w-]*)?@", "://", confirm=_random),
    phrase(
        "credentials in a URL",
        r"://[^\s/:@\"'<>]{0,80}:(?P<secret>[^\s/@\"'<>]{3,200})@",
        "://",
        confirm=_is_password,
    ),
)
