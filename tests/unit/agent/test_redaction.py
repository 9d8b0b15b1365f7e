"""Redaction: secrets are removed and nothing else is; each rule finds a realistic sample of its kind."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.redaction import (
    REDACTED,
    Rule,
    all_rules,
    keeping_secret,
    own_rules,
    redact,
    redact_message,
    rules_that_may_fire,
)
from agent.redaction.detect_secrets_rules import RULES as LIBRARY
from tests.support.histories import tau_transcripts
from tests.support.secret_samples import SAMPLES

ROOT = Path(__file__).parents[3]

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
    "openrouter": "sk-or-v1-" + "a1b2c3d4" * 8,
    "github, fine-grained": "github_pat_" + "a1B2c3D4e5" * 4,
    "sendgrid": "SG." + "a1B2c3D4e5f" * 2 + "." + "a1B2c3D4e5" * 4,
    "gitlab trigger": "glptt-" + "a1b2c3d4e5" * 4,
    "twilio": "SK" + "a1b2c3d4" * 4,
    "mailchimp": "0123456789abcdef0123456789abcdef-us12",
    "square": "sq0csp-" + "a1B2c3D4e5" * 4 + "abc",
    "azure": "AccountKey=" + "a1B2c3D4" * 10 + "a1B2c3==",
    "key in base64": "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQpNSUlFcEFJQkFBS0NBUUVB",
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
    "json in json": (r'{"body": "{\"password\": \"hunter2\"}"}', "hunter2"),
    "yaml": ("db:\n  password: s3cr3t!\n ", "s3cr3t!"),
    "variable": ("X=1\nexport DB_PASSWORD=correcthorse\nY=2\n", "correcthorse"),
    "aws secret": ("\nAWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\n", "wJalrXUtnFEMI"),
    "option": ("mysql --password=hunter2 --user ada", "hunter2"),
    "netrc": ("machine example.org login ada password geheim", "geheim"),
    "docker": ('{"auths": {"x": {"auth": "dXNlcjpwYXNz"}}}', "dXNlcjpwYXNz"),
    "npm": ("//registry.example.org/:_authToken=0a1b2c3d-0a1b-2c3d-4e5f-0a1b2c3d4e5f", "0a1b2c3d-0a1b"),
    "cookie": ("Cookie: theme=dark; session=a8f7d6e5c4b3a29187", "a8f7d6e5c4b3a29187"),
    "slack": ("https://hooks.slack.com/services/T0FAKE00/B0FAKE00/aFakeOneOfTheTests", "aFakeOneOfTheTests"),
    "webhook": ("https://discord.com/api/webhooks/12345/" + "aFake0Token" * 4, "aFake0Token"),
    "token in a url": ("https://a1b2c3d4e5f6a7b8c9d0e1@example.org/x.git", "a1b2c3d4e5f6"),
    "half a bot token": ("https://api.telegram.org/bot123456:AAF/getMe", "123456:AAF"),
    "cloudant": ("cloudant_key: " + "abcdefghijklmnopqrstuvwx", "abcdefghijklmnopqrstuvwx"),
    "softlayer": ("softlayer_api_key=" + "a1b2c3d4" * 8, "a1b2c3d4a1b2"),
    "a long one": (f"refresh_token={'a1B2c3D4' * 300}", "c3D4"),
    "a long list of cookies": (
        f"Cookie: session=a8f7d6e5c4b3a29187;{' id=1a2b3c4d5e6f7a8b;' * 200} x=1",
        "1a2b3c",
    ),
    "at the end of a sentence": ("My password is hunter2!", "hunter2"),
    "variable that says it holds one": ("\nSESSION_SECRET=correcthorse\n", "correcthorse"),
    "key in json": (
        r'"private_key": "-----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKC\n-----END PRIVATE KEY-----\n"',
        "MIIEp",
    ),
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
    "self.password = password",
    "client = OpenAI(api_key=os.environ['OPENAI_API_KEY'], token=settings.token.get_secret_value())",
    "def login(password: Optional[str] = None, token: AsyncIterator[bytes] | None = None) -> None:",
    '{"password": "Passwort", "type": "password", "next_page_token": "CAUQAA8x7y6z5w4v3u2t"}',
    "postgres://user:password@localhost/db and DB_PASSWORD=${DB_PASSWORD}",
    "curl -H 'Authorization: Bearer $TOKEN' --token <your-token> --password PASSWORD",
    "httpx==0.28.1 --hash=sha256:75e98c5f16b0f35b567856f597f06ff2270a374470a5c2392242528e3e3e42fc",
    '"integrity": "sha512-VPmnlmxEgqdGpWbQOzLz8GFFVCmVWvYVlLQnDkUHF1EbzNSFPvWsrP2cmRUnzTtV2sW9Yw=="',
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
    "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----",
    "A key begins with -----BEGIN PRIVATE KEY----- and goes on\nover many lines.",
    "PWD=/home/ada1 and pwd: ~/work2",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJl3dIeudNqd0DPMRD6OIh65 ada@example.org",
    "MAX_TOKENS=128000\nPRIMARY_KEY=user_id\nSORT_KEY=created_at_desc\nCACHE_KEY=users:v2:list",
    "S3_KEY_PREFIX=uploads/2024/\nHOT_KEY=ctrl+shift+p\nACCESS_TOKEN=1234567890",
    "'password' => 'nullable|string'",
    "Your password is wrong! The password is 100% safe. Das Passwort ist falsch!",
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
    """The text around them stays."""
    redacted = redact(f"before {said} after")
    assert secret not in redacted
    assert redacted.startswith("before ") and redacted.endswith("after")


@pytest.mark.parametrize("said", ORDINARY)
def test_ordinary_ids_and_words_stay(said: str) -> None:
    """A ledger without identifiers would be of no use."""
    assert redact(said) == said


HEX = st.text("0123456789abcdef", min_size=7, max_size=64)
IDS = st.one_of(
    HEX,
    st.uuids().map(str),
    st.integers(0, 10**18).map(str),
    st.datetimes().map(lambda moment: moment.isoformat()),
    st.ip_addresses().map(str),
    st.binary(min_size=8, max_size=80).map(lambda data: base64.b64encode(data).decode()),
    st.text("0123456789abcdefghjkmnpqrstvwxyz", min_size=26, max_size=26).map("msg_{}".format),
)


@settings(deadline=None, max_examples=300)
@given(
    IDS, st.sampled_from(["{}", "id: {}", '{{"sha": "{}"}}', "commit {} of main", "/files/{}/raw", "a,{},b"])
)
def test_ids_and_hashes_stay(made_up: str, around: str) -> None:
    """Of any kind that programs print."""
    assert redact(around.format(made_up)) == around.format(made_up)


def test_real_conversations_stay() -> None:
    """Not a letter of the public transcripts is taken for a secret: names, ids, bookings, prices."""
    for transcript in tau_transcripts():
        text = json.dumps(transcript, ensure_ascii=False)
        assert redact(text) == text


def test_code_stays() -> None:
    """Not a letter of our own, which speaks of tokens and passwords on every page."""
    files = [file for room in ("agent", "gateway") for file in sorted((ROOT / room).rglob("*.py"))]
    assert len(files) > 200
    for file in files:
        text = file.read_text()
        assert redact(text) == text, file


def test_what_a_library_knows_is_gone() -> None:
    """Nothing that one of these detectors reports stays in the text."""
    text = "\n".join([*SECRETS.values(), *(said for said, _ in PHRASES.values())])
    left = redact(text)
    assert all(not list(rule.find(left)) for rule in LIBRARY)
    assert sum(any(list(rule.find(secret)) for rule in LIBRARY) for secret in SECRETS.values()) >= 6


def test_lines_keep_their_numbers() -> None:
    """A block of many lines leaves as many."""
    said, _ = PHRASES["private key"]
    assert redact(f"one\n{said}\nlast").splitlines() == [
        "one",
        "-----BEGIN RSA PRIVATE KEY-----",
        REDACTED,
        REDACTED,
        "-----END RSA PRIVATE KEY-----",
        "last",
    ]


@pytest.mark.parametrize(
    "piece",
    [
        "{0}\n{0}\nabc=\n-----END OPENSSH PRIVATE KEY-----",
        "-----BEGIN OPENSSH PRIVATE KEY-----\n{0}\n{0}",
        "key:1: -----BEGIN OPENSSH PRIVATE KEY-----\nkey:2: {0}\nkey:3: {0}\nkey:4: -----END OPENSSH PRIVATE KEY-----",
        "     1\t-----BEGIN OPENSSH PRIVATE KEY-----\n     2\t{0}\n     3\t{0}",
        "+-----BEGIN OPENSSH PRIVATE KEY-----\n+{0}\n+{0}\n+-----END OPENSSH PRIVATE KEY-----",
    ],
)
def test_pieces_of_a_key_are_known(piece: str) -> None:
    """As they are left by `tail`, `head`, `grep`, `cat -n` and a diff."""
    line = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAABlwAAAAdzc2gtcn"
    assert line not in redact(piece.format(line))


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


@pytest.mark.parametrize(
    "trap",
    [
        "a.b-" * 100_000 + "password",
        "password=" * 40_000,
        "token:" + " " * 400_000,
        "-----BEGIN PRIVATE KEY-----\n" * 15_000,
        ("A" * 64 + "\n") * 6_000 + "-----END PRIVATE KEY-----",
        "eyJ" * 150_000,
        "sk-" * 150_000,
        "://a:" + "b" * 400_000,
        "authorization:" * 30_000,
        "accountkey=" * 15_000,
        "token=a" * 20_000,
        "a=cookie:a=b;" * 10_000,
        "cloudant_apikey" + " " * 100_000,
        "//" * 50_000 + "_authtoken",
    ],
    ids=lambda trap: trap[:12].strip(),
)
def test_no_text_is_a_trap(trap: str) -> None:
    """Half a megabyte of anything takes no more than a moment, as does what repeats the beginning of a secret."""
    began = time.process_time()
    redact(trap)
    assert time.process_time() - began < 5


@pytest.mark.parametrize("between", ["=", "=a", ":a1B"])
def test_four_times_the_text_takes_four_times_as_long(between: str) -> None:
    """Every name and every beginning of a secret that a rule looks for, in one endless word."""
    hints = {hint for rule in all_rules() for hint in rule.hints if not set(hint) & set('"%')}
    names = between.join(sorted(hints)) + between
    redact(names)

    def seconds(length: int) -> float:
        text = (names * (length // len(names) + 1))[:length]
        began = time.process_time()
        # Each by itself: the first that fires would leave nothing for the others.
        for rule in all_rules():
            list(rule.find(text))
        return time.process_time() - began

    assert seconds(120_000) < 8 * max(seconds(30_000) for _ in range(2)) + 0.1


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
    """All rules together leave no eight characters of the secret and all of the text around it."""
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
