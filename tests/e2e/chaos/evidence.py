"""The evidence for everything that went wrong: what was said, asked, stored, sent, seen and logged about it."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf

from tests.e2e.chaos.chaos_run import ChaosRun
from tests.e2e.chaos.checks import Violation
from tests.e2e.chaos.database import contents, rows_about
from tests.e2e.chaos.observed import Said
from tests.e2e.chaos.words import asked_in, token_of_key, words_in

SHOWN_VIOLATIONS = 12
_LOG_LINES = 14
_SHOWN_READS = 4


def evidence(chaos: ChaosRun, violations: Sequence[Violation]) -> str:
    """About one of each kind first, then about others."""
    seen: Counter[str] = Counter()
    ranked = []
    for violation in violations:
        ranked.append((seen[violation.kind], violation))
        seen[violation.kind] += 1
    ranked.sort(key=lambda pair: pair[0])
    lines: list[str] = []
    for _, violation in ranked[:SHOWN_VIOLATIONS]:
        lines += ["", *_about(chaos, violation)]
    if refusals := chaos.model.refusals:
        lines += ["", "The model was asked something malformed:", *refusals[:5]]
    return "\n".join(lines)


def _about(chaos: ChaosRun, violation: Violation) -> Iterator[str]:
    token = f" q{violation.token}" if violation.token is not None else ""
    yield f"## {violation.kind}{token} in {violation.chat or 'the database'}: {violation.detail}"
    said = next((said for said in chaos.said if said.token == violation.token), None)
    if said is not None:
        yield from _story(chaos, said)


def _story(chaos: ChaosRun, said: Said) -> Iterator[str]:
    began = chaos.hermes.lives[0].started
    kind = chaos.model.kinds[said.token]
    yield f"inbound {said.chat} message {said.number} ({kind}), said at {chaos.said_at[said.token] - began:.2f}"
    near = [life for life in chaos.hermes.lives if (life.killed or inf) > chaos.said_at[said.token]]
    lives = [
        f"{life.number}: {life.started - began:.2f} to {(life.killed or inf) - began:.2f}" for life in near
    ]
    yield f"lives {', '.join(lives[:4])}"
    for asked in chaos.model.asked:
        if asked.token == said.token:
            steps = f" after {asked.after_tools} results" if asked.after_tools else ""
            yield f"model asked at {asked.at - began:.2f} in life {asked.life}, attempt {asked.attempt}{steps}"
    message_id = ""
    for row in contents(chaos.hermes.database).stored:
        keys = [key for key in row.keys if token_of_key(key) == said.token]
        words = [word for word in words_in(row.content) if word.token == said.token]
        if (row.role == "user" and asked_in(row.content) == said.token) or words or keys:
            message_id = row.id if row.role == "user" else message_id
            yield f"stored {row.role} {row.id}: {_brief(row.content)} {' '.join(keys)}"
    yield from rows_about(chaos.hermes.database, said.chat.partition(":")[0], said.number, message_id)
    yield from _visible(chaos, said, began)
    yield from _logged(chaos, message_id)


def _visible(chaos: ChaosRun, said: Said, began: float) -> Iterator[str]:
    """Return every call about the message, and its text on both services."""
    mine, ahead = f"m{said.token}a", chaos.discord.clock.now() - time.monotonic()
    for call in chaos.telegram.calls:
        if mine in call.text:
            after = call.result.get("message_id") if isinstance(call.result, dict) else call.result
            yield f"{call.at - began:.2f} {call.method} -> {after} {call.error}: {_brief(call.text)}"
    for request in chaos.discord.calls:
        content = str((request.body or {}).get("content") if isinstance(request.body, dict) else "")
        if mine in content:
            at = request.at - ahead - began
            yield f"{at:.2f} {request.verb} {request.path} -> {request.status}: {_brief(content)}"
    reads = [
        read for read in chaos.discord.calls_to("get_messages") if read.at - ahead > chaos.said_at[said.token]
    ]
    for read in [read for read in reads if said.chat.endswith(f":{read.ids['channel_id']}")][:_SHOWN_READS]:
        found = [message["id"] for message in read.answer or ()]
        told = "with it" if said.number in found else f"{len(found)} others"
        yield f"{read.at - ahead - began:.2f} {read.verb} -> {told}"
    for chat in chaos.telegram.chats.values():
        for message in chat.from_bot:
            if mine in message.text:
                yield f"visible in telegram:{chat.id} message {message.id}: {_brief(message.text)}"
    for shown in chaos.discord.state.messages.values():
        if mine in shown.content and not shown.deleted:
            yield f"visible in discord:{shown.channel.id} message {shown.id}: {_brief(shown.content)}"


def _logged(chaos: ChaosRun, message_id: str) -> Iterator[str]:
    if not message_id:
        return
    found = [
        (life.number, line)
        for life in chaos.hermes.lives
        for line in life.log.read_text(errors="replace").splitlines()
        if message_id in line
    ]
    for number, line in found[-_LOG_LINES:]:
        yield f"log of life {number}: {_event(line)}"


def _event(line: str) -> str:
    try:
        fields = json.loads(line)
    except ValueError:
        return line[:200]
    event = fields.pop("event", "")
    return f"{event} " + " ".join(f"{key}={value}" for key, value in fields.items())[:240]


def _brief(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 100 else f"{flat[:60]} … {flat[-30:]}"
