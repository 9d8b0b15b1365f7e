"""What looks like a secret goes, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.redaction import REDACTED, redact, redact_message, rules_that_may_fire

SECRETS = {
    "openai": "sk-proj-" + "a1B2c3D4" * 5,
    "anthropic": "sk-ant-api03-" + "a1B2c3D4" * 5,
    "github": "ghp_" + "a1B2c3D4e5" * 4,
    "gitlab": "glpat-" + "a1B2c3D4e5" * 2,
    "slack": "xoxb-123456789012-a1B2c3D4",
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "google": "AIza" + "a1B2c3D4e5" * 4,
    "huggingface": "hf_" + "a1B2c3D4e5" * 4,
    "stripe": "sk_live_" + "a1B2c3D4e5" * 3,
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "telegram": "123456789:AAEhBOweik6ad9r_QXMENQjcrGbqCr4K-bc",
    "discord": "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs",
}
PHRASES = {
    "private key": (
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7\nabc\n-----END RSA PRIVATE KEY-----",
        "MIIEpAIBAAKCAQEA7",
    ),
    "bearer": ("curl -H 'Authorization: Bearer abc.def-123456789'", "abc.def-123456789"),
    "basic": ('"authorization": "Basic dXNlcjpwYXNz"', "dXNlcjpwYXNz"),
    "password": ("password=hunter2", "hunter2"),
    "json password": ('{"db_password": "s3cr3t!"}', "s3cr3t!"),
    "api key": ("API_KEY: abcdef1234567890", "abcdef1234567890"),
    "client secret": ('client_secret = "Zm9vYmFyYmF6"', "Zm9vYmFyYmF6"),
    "url": ("postgres://ada:lovelace1815@db.example.org/main", "lovelace1815"),
    "sentence": ("my password is hunter2, please log in", "hunter2"),
    "german": ("Das Passwort lautet Geheim!7", "Geheim!7"),
}
ORDINARY = [
    "NO6JO3 and mia_li_3668 with credit_card_4421486",
    "550e8400-e29b-41d4-a716-446655440000",
    "e83c5163316f89bfbde7d9ab23ca2e25604af290",
    "msg_01h8abcdefghjkmnpqrstvwxyz",
    "The password is required, and the token is missing.",
    "max_tokens: 4096, total tokens: 123456789",
    "basic economy for everybody",
    "https://example.org:8080/a/b?c=1",
    "See task-force-planning-and-review-notes and sk-learn.",
    "bearer of bad news everywhere",
    "Order 2025110042 was sent to ada@example.org",
]


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS.keys())
def test_keys_are_redacted(secret: str) -> None:
    """Alone, in a sentence, in JSON, in a URL."""
    for around in (
        "{}",
        "Use {} for that.",
        '{{"value": "{}"}}',
        "https://example.org/bot{}/getMe".replace("bot", ""),
    ):
        redacted = redact(around.format(secret))
        assert secret not in redacted
        assert REDACTED in redacted


@pytest.mark.parametrize(("said", "secret"), PHRASES.values(), ids=PHRASES.keys())
def test_secrets_are_known_by_what_they_are_called(said: str, secret: str) -> None:
    """What stands around them stays."""
    redacted = redact(f"before {said} after")
    assert secret not in redacted
    assert redacted.startswith("before ") and redacted.endswith("after")


@pytest.mark.parametrize("said", ORDINARY)
def test_ordinary_ids_and_words_stay(said: str) -> None:
    """A ledger without identifiers would be of no use."""
    assert redact(said) == said


def test_a_bot_token_in_a_url_is_redacted() -> None:
    """As HTTP clients print it."""
    assert SECRETS["telegram"] not in redact(
        f"POST https://api.telegram.org/bot{SECRETS['telegram']}/sendMessage"
    )


@settings(deadline=None, max_examples=300)
@given(
    st.lists(
        st.sampled_from([*SECRETS.values(), *(said for said, _ in PHRASES.values()), *ORDINARY]), max_size=6
    )
)
def test_looking_at_the_vocabulary_misses_nothing(said: list[str]) -> None:
    """The rules found for the words do the same as all rules; and what is redacted once stays so."""
    whole = "\n".join(said)
    assert redact(whole, rules_that_may_fire(whole.split())) == redact(whole)
    assert redact(redact(whole)) == redact(whole)


def test_a_message_is_copied_and_not_changed() -> None:
    """Text, parts and arguments."""
    secret = SECRETS["openai"]
    call = {
        "id": "c",
        "type": "function",
        "function": {"name": "login", "arguments": f'{{"key": "{secret}"}}'},
    }
    parts = [{"type": "text", "text": f"key {secret}"}, {"type": "image_url", "image_url": {"url": "data:"}}]
    message = {"role": "assistant", "content": parts, "tool_calls": [call]}
    redacted = redact_message(message, rules_that_may_fire(f"{secret} x".split()))
    assert secret not in str(redacted)
    assert secret in str(message)
    assert redact_message(message, ()) is message


def test_long_text_without_spaces_is_no_trap() -> None:
    """A megabyte of base64 with words like password in it takes no more than a moment."""
    redact("a.b-" * 200_000 + "password")
