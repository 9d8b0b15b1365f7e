"""Rules from detect-secrets: its detectors that match by format only.

Left out are detectors by entropy, by keyword and of public addresses, those whose shapes ordinary text has
(Artifactory, AWS, IBM), and those whose patterns take minutes for a line of spaces or slashes (Cloudant, SoftLayer,
npm).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module

from agent.redaction.rules import Find, Rule, Span

_GITLAB = ("pat", "dt", "ft", "soat", "rt", "cbt", "imt", "ptt", "agent", "oas")
_DETECTORS = (
    ("azure_storage_key", "AzureStorageKeyDetector", ("accountkey=",)),
    ("gitlab_token", "GitLabTokenDetector", (*(f"gl{kind}-" for kind in _GITLAB), "gr1348941")),
    ("mailchimp", "MailchimpDetector", tuple(f"-us{digit}" for digit in range(1, 10))),
    ("pypi_token", "PypiTokenDetector", ("pypi-ag",)),
    ("slack", "SlackDetector", ("xox", "hooks.slack.com")),
    ("square_oauth", "SquareOAuthDetector", ("sq0csp",)),
    ("stripe", "StripeDetector", ("k_live_",)),
)
_MIN_SECRET_LENGTH = 16


def _find(module: str, detector: str) -> Find:
    """Return a search that imports its detector on first use: the import takes a fifth of a second."""

    def find(text: str) -> Iterator[Span]:
        end = 0
        matches = (match for pattern in _patterns(module, detector) for match in pattern.finditer(text))
        for start, stop in sorted(map(_secret, matches)):
            if start >= end:
                yield start, stop
                end = stop

    return find


@cache
def _patterns(module: str, detector: str) -> tuple[re.Pattern[str], ...]:
    return tuple(getattr(import_module(f"detect_secrets.plugins.{module}"), detector)().denylist)


def _secret(match: re.Match[str]) -> Span:
    spans = [match.span(number) for number in range(1, match.re.groups + 1)]
    return max(
        (span for span in spans if span[1] - span[0] >= _MIN_SECRET_LENGTH),
        key=lambda span: span[1] - span[0],
        default=match.span(),
    )


RULES = tuple(Rule(detector, _find(module, detector), hints) for module, detector, hints in _DETECTORS)
