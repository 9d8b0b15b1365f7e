"""Rules that others maintain: those detectors of detect-secrets that know a shape and nothing else.

Left out are its detectors by entropy, which take every hash for a secret, by keyword, which read one line of a known
language, of public addresses, which are none, and those whose shapes ordinary text has: `AP` and eight letters
(Artifactory), `ACCA` and sixteen (AWS), `key=` and a long constant (IBM). Ours know more of the shapes that both know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module

from agent.redaction.rules import Find, Rule, Span

_DETECTORS = (
    ("azure_storage_key", "AzureStorageKeyDetector", ("accountkey=",)),
    ("cloudant", "CloudantDetector", ("cloudant",)),
    ("gitlab_token", "GitLabTokenDetector", ("gl", "gr1348941")),
    ("mailchimp", "MailchimpDetector", ("-us",)),
    ("npm", "NpmDetector", ("_authtoken",)),
    ("pypi_token", "PypiTokenDetector", ("pypi-",)),
    ("sendgrid", "SendGridDetector", ("sg.",)),
    ("slack", "SlackDetector", ("xox", "slack.com")),
    ("softlayer", "SoftlayerDetector", ("softlayer",)),
    ("square_oauth", "SquareOAuthDetector", ("sq0csp",)),
    ("stripe", "StripeDetector", ("k_live_",)),
    ("twilio", "TwilioKeyDetector", ("ac", "sk")),
)
_SHORTEST = 16
"""A group of a pattern that is shorter is a part of the secret."""


@cache
def library_rules() -> tuple[Rule, ...]:
    """Imported when it is first needed: with what it brings along it takes a fifth of a second."""
    return tuple(_rule(module, detector, hints) for module, detector, hints in _DETECTORS)


def _rule(module: str, detector: str, hints: tuple[str, ...]) -> Rule:
    made = getattr(import_module(f"detect_secrets.plugins.{module}"), detector)()
    return Rule(made.secret_type, _find_any(tuple(made.denylist)), hints)


def _find_any(patterns: tuple[re.Pattern[str], ...]) -> Find:
    def find(text: str) -> Iterator[Span]:
        end = 0
        for start, stop in sorted(_secret(match) for pattern in patterns for match in pattern.finditer(text)):
            if start >= end:
                yield start, stop
                end = stop

    return find


def _secret(match: re.Match[str]) -> Span:
    spans = [match.span(number) for number in range(1, match.re.groups + 1)]
    return max(
        (span for span in spans if span[1] - span[0] >= _SHORTEST),
        key=lambda span: span[1] - span[0],
        default=match.span(),
    )
