"""A realistic sample for every redaction rule: the rule fires, and nothing of the secret is left.

Samples are put together at run time, so that no scanner takes this file for a leak.
"""

from __future__ import annotations

import pytest

from agent.redaction import REDACTED, Rule, all_rules, keeping_secret, own_rules, redact
from tests.support.secret_samples import SAMPLES


@pytest.mark.parametrize(("what", "around", "secret"), SAMPLES)
def test_a_rule_finds_a_secret_of_its_kind(what: str, around: str, secret: str) -> None:
    """By that rule alone, and all of it."""
    text = around.format(secret)

    found = [
        text[begin:end] for rule in _rules(what) if _may_fire(rule, text) for begin, end in rule.find(text)
    ]

    assert any(secret in each for each in found), f"found {found}"


@pytest.mark.parametrize(("what", "around", "secret"), SAMPLES)
def test_nothing_of_a_secret_is_left(what: str, around: str, secret: str) -> None:
    """By all rules together: no piece of eight characters stays, and what stands around the secret does."""
    clean = redact(around.format(secret))

    assert REDACTED in clean
    assert not [piece for piece in _pieces(secret) if piece in clean], clean


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: f"{rule.what}, {rule.hints[0]}")
def test_every_rule_has_a_sample_that_it_finds(rule: Rule) -> None:
    """A rule that never fires protects nothing. Each prefix of a provider is a rule."""
    texts = [around.format(secret) for what, around, secret in SAMPLES if what == rule.what]

    assert any(_may_fire(rule, text) and list(rule.find(text)) for text in texts)


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: f"{rule.what}, {rule.hints[0]}")
def test_the_hints_of_a_rule_are_in_lower_case(rule: Rule) -> None:
    """They are looked for in the text in lower case, so that any other hint is never found."""
    assert all(hint == hint.lower() and not set(hint) & set(" \t\n") for hint in rule.hints)


def test_the_secrets_of_this_installation_have_a_rule() -> None:
    """Known word for word, as they are and as an address writes them."""
    secret = "/".join(["correct horse", "battery staple"])
    with keeping_secret([secret]):
        (rule,) = [rule for rule in own_rules() if rule.what == "a secret of this installation"]
        for written in (secret, "correct%20horse%2Fbattery%20staple"):
            assert list(rule.find(f"x {written} y")) == [(2, 2 + len(written))]


def _rules(what: str) -> list[Rule]:
    rules = [rule for rule in all_rules() if rule.what == what]
    assert rules, f"no rule is called {what}"
    return rules


def _may_fire(rule: Rule, text: str) -> bool:
    return any(hint in text.lower() for hint in rule.hints)


def _pieces(secret: str) -> list[str]:
    if len(secret) <= 8:
        return [secret]
    return [secret[at : at + 8] for at in range(len(secret) - 7) if "-----" not in secret[at : at + 8]]
