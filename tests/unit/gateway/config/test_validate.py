"""Problems in a file: each message names line, key, expected and found value."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from gateway.config.loader import load
from gateway.errors import ConfigError


def problems(tmp_path: Path, text: str) -> list[str]:
    """Return the problems of this file, without its name."""
    path = tmp_path / "hermes.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert caught.value.exit_code == 2
    assert all(problem.startswith(f"{path}:") for problem in caught.value.problems)
    return [problem.removeprefix(f"{path}:") for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("modle: {}", "1: modle: unknown key; did you mean model?"),
        ("model:\n  nmae: x", "2: model.nmae: unknown key; did you mean model.name?"),
        ("port: 80", "1: port: unknown key; did you mean platforms.web.port?"),
        ("zebra: 1", "1: zebra: unknown key."),
        ("model: {fallbacks: [{name: a, nam: b}]}",
         "1: model.fallbacks[0].nam: unknown key; did you mean model.fallbacks[0].name?"),
        ("model: {fallbacks: [{base_url: 'http://x'}]}", "1: model.fallbacks[0].name: is required."),
        ("model: {name: 5}", "1: model.name: expected text, found 5; put it in quotes."),
        ("model: {name: ''}", "1: model.name: expected text, found ''."),
        ("model: {max_tokens: many}",
         "1: model.max_tokens: expected a whole number of at least 1, found 'many'."),
        ("model: {context_length: yes}",
         "1: model.context_length: expected a whole number of at least 1, found true."),
        ("model: {base_url: 'localhost:11434'}",
         "1: model.base_url: expected an http or https URL without a password, found 'localhost:11434'."),
        ("model: 2024-01-01", "1: model: expected a mapping, found a date."),
        ("agent: {max_iterations: 0}",
         "1: agent.max_iterations: expected a whole number from 1 to 1000, found 0."),
        ("agent: [a]", "1: agent: expected a mapping, found a list."),
        ("tools: {enabled: todo}", "1: tools.enabled: expected a list, found 'todo'."),
        ("tools:\n  enabled:\n", "2: tools.enabled: expected a list, found nothing."),
        ("tools: {platforms: {web: todo}}", "1: tools.platforms.web: expected a list, found 'todo'."),
        ("storage: {path: 5}", "1: storage.path: expected text, found 5; put it in quotes."),
        ("storage: {path: ~nobody-by-that-name/x}",
         "1: storage.path: expected a path; the home directory `~` is unknown here."),
        ("platforms: {web: {enabled: maybe}}",
         "1: platforms.web.enabled: expected `true` or `false`, found 'maybe'."),
        ("platforms: {web: {port: 65536}}",
         "1: platforms.web.port: expected a whole number from 0 to 65535, found 65536."),
        ("platforms: {web: {port: }}",
         "1: platforms.web.port: expected a whole number from 0 to 65535, found nothing."),
        ("compression: {threshold: 1.5}",
         "1: compression.threshold: expected a number from 0.0 to 1.0, found 1.5."),
        ("compression: {threshold: .nan}",
         "1: compression.threshold: expected a number from 0.0 to 1.0, found nan."),
        ("compression: {threshold: true}",
         "1: compression.threshold: expected a number from 0.0 to 1.0, found true."),
        ("compression: {target_ratio: 0.09}",
         "1: compression.target_ratio: expected a number from 0.1 to 0.8, found 0.09."),
        ("compression: {target_ratio: 0.81}",
         "1: compression.target_ratio: expected a number from 0.1 to 0.8, found 0.81."),
        ("compression: {protect_last_n: 0}",
         "1: compression.protect_last_n: expected a whole number of at least 1, found 0."),
        ("prompt_caching: {cache_ttl: 2h}",
         "1: prompt_caching.cache_ttl: expected `5m` or `1h`, found '2h'."),
        ("logging: {level: INFO}",
         "1: logging.level: expected `debug`, `info`, `warning` or `error`, found 'INFO'."),
        ("model: {}\nmodel: {}", "2: model: is set twice; the first time on line 1."),
        ("model:\n  name: a\n  base_url: null\n  name: b",
         "4: model.name: is set twice; the first time on line 2."),
        ("[a, b]", "1: expected a mapping of keys, found a list."),
        ("just text", "1: expected a mapping of keys, found text."),
        ("? [a]\n: b", "1: ?: expected a name before the colon."),
        ("model: {name: ${NOPE}}".replace("{name: ", "\n  name: ").replace("}}", "}"),
         "2: model.name: the variable NOPE is not set; set it, or give a default as ${NOPE:-default}."),
        ("model:\n  name: ${A:-${B}}",
         "2: model.name: expected a variable as ${NAME} or ${NAME:-default}; write $${ for a literal ${."),
        ("model: {name: !!python/object:os.system x}",
         "1: model.name: the tag tag:yaml.org,2002:python/object:os.system is not supported."),
        ("model: !custom {name: x}", "1: model: the tag !custom is not supported."),
    ],
)  # fmt: skip
def test_one_problem(tmp_path: Path, text: str, problem: str) -> None:
    assert problems(tmp_path, text) == [problem]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("model:\n  name: [a\nagent: {}\n", 3),
        ("model:\n\tname: a\n", 2),
        ("model: a: b\n", 1),
        ("model: 'a\n", 2),
        ("model: *nothing\n", 1),
        ("a: 1\n---\nb: 2\n", 2),
        ("a: 1\nb: \x07\n", 2),
    ],
)
def test_broken_yaml(tmp_path: Path, text: str, line: int) -> None:
    (problem,) = problems(tmp_path, text)
    assert problem.startswith(f"{line}: not valid YAML: ")


def test_all_problems_at_once(tmp_path: Path) -> None:
    text = dedent("""\
        modle: {}
        compression:
          threshold: 7
          threshold: 8
        model:
          name: ${NOPE}
          base_url: nowhere
        """)
    assert [problem.split(":")[:2] for problem in problems(tmp_path, text)] == [
        ["1", " modle"],
        ["3", " compression.threshold"],
        ["4", " compression.threshold"],
        ["6", " model.name"],
        ["7", " model.base_url"],
    ]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_open_host_needs_a_token(tmp_path: Path, host: str) -> None:
    (problem,) = problems(tmp_path, f"platforms:\n  web:\n    host: '{host}'\n")
    assert problem.startswith(
        f"2: platforms.web.token: expected a token, because platforms.web.host is {host}"
    )


def test_an_open_host_needs_a_token_that_cannot_be_guessed(tmp_path: Path) -> None:
    """The message does not repeat the token, which may be most of the right one."""
    (problem,) = problems(tmp_path, "platforms:\n  web:\n    host: 0.0.0.0\n    token: fifteen-letters\n")
    assert problem.startswith("4: platforms.web.token: expected at least 16 characters")
    assert "fifteen" not in problem


@pytest.mark.parametrize(
    "web",
    [
        "{host: 0.0.0.0, token: sixteen-or-more-}",
        "{host: '::1'}",
        "{host: localhost, token: s}",
        "{host: 127.9.9.9}",
    ],
)
def test_guarded_and_loopback_hosts(tmp_path: Path, web: str) -> None:
    """A loopback address needs no token."""
    path = tmp_path / "hermes.yaml"
    path.write_text(f"platforms: {{web: {web}}}\n")
    assert load(path).config.platforms.web.enabled


NO_MINUS = "expected a number that begins with a minus; /whoami or the log tells it."
NO_PERSON = "expected a positive number, because people have no others; groups go to allowed_groups."
NO_SERVER = "expected a positive number, because servers have no others; the log tells it."


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("telegram:\n    allowed_groups:\n      - -100123\n      - 1001234567890",
         f"5: platforms.telegram.allowed_groups[1]: {NO_MINUS}"),
        ("telegram: {bots: {work: {allowed_groups: ['100']}}}",
         f"2: platforms.telegram.bots.work.allowed_groups[0]: {NO_MINUS}"),
        ("telegram: {allowed_users: [-100123]}", f"2: platforms.telegram.allowed_users[0]: {NO_PERSON}"),
        ("telegram: {admins: [0]}", f"2: platforms.telegram.admins[0]: {NO_PERSON}"),
        ("discord: {admins: [-4711]}", f"2: platforms.discord.admins[0]: {NO_PERSON}"),
        ("discord: {allowed_groups: [-100123]}", f"2: platforms.discord.allowed_groups[0]: {NO_SERVER}"),
        ("discord: {allowed_users: ['@ada']}",
         "2: platforms.discord.allowed_users[0]: expected a numeric id, because a name can change hands; "
         "/whoami tells it."),
    ],
)  # fmt: skip
def test_ids_that_cannot_be_right(tmp_path: Path, text: str, problem: str) -> None:
    """The id of a Telegram group begins with a minus, for example."""
    assert problems(tmp_path, f"platforms:\n  {text}\n") == [problem]


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("telegram: {enabled: true}", "telegram", "TELEGRAM_BOT_TOKEN"),
        ("telegram: {enabled: true, token: '${UNSET:-}'}", "telegram", "TELEGRAM_BOT_TOKEN"),
        ("discord: {enabled: true}", "discord", "DISCORD_BOT_TOKEN"),
        # A variable holds the token of one bot; the others have a line of their own.
        ("discord: {bots: {work: {enabled: true}}}", "discord.bots.work", "token"),
    ],
)
def test_a_bot_that_is_on_needs_a_token(tmp_path: Path, text: str, place: str, what: str) -> None:
    """The message says what to set."""
    assert problems(tmp_path, f"platforms:\n  {text}\n") == [
        f"2: platforms.{place}.token: expected a token, because enabled is true; set {what} or enabled: false."
    ]


def test_a_missing_variable_is_one_problem(tmp_path: Path) -> None:
    """There is no second problem about the missing token."""
    (problem,) = problems(tmp_path, "platforms: {telegram: {enabled: true, token: '${UNSET}'}}\n")
    assert "the variable UNSET is not set" in problem


def test_bots_that_may_be_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", "123:x")
    path = tmp_path / "hermes.yaml"
    path.write_text("platforms: {telegram: {enabled: true, bots: {a: {enabled: false}, b: {}}}}\n")
    assert load(path).config.platforms.telegram.is_on


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "text", [BOMB, "a: &a [*a]\n", "[" * 500_000, "- " * 100_000, "a: " + "[" * 30 + "]" * 30],
    ids=["aliases", "itself", "brackets", "dashes", "deep"],
)  # fmt: skip
def test_hostile_files_are_bounded(tmp_path: Path, text: str) -> None:
    """A file of nested aliases or a million brackets is refused."""
    assert problems(tmp_path, text) == ["1: expected at most 10000 values, nested at most 20 deep."]


def test_aliases_work_in_moderation(tmp_path: Path) -> None:
    path = tmp_path / "hermes.yaml"
    path.write_text("model: {name: &m openai/a, fallbacks: [*m]}\n")
    assert load(path).config.model.fallbacks[0].name == "openai/a"
