"""The page Overview: platforms, running turns, queues, errors, and the cost of today."""

from __future__ import annotations

import time
from typing import Any

from aiohttp import web

from gateway.limits import Day, format_duration
from gateway.platforms.web.dashboard.page import DashboardContext, PageRenderer
from gateway.store.reports import UsageTotal

_MAX_TURNS = 20
_MAX_PEOPLE = 10
_NEWEST = 3
_MAX_WARNINGS = 5


def routes(context: DashboardContext, page: PageRenderer) -> list[web.RouteDef]:
    async def gather(request: web.Request) -> dict[str, Any]:
        midnight = Day.of(time.time()).start
        turns = context.gateway.active_turns
        by_person = await context.reports.spending(since=midnight, by=["person"])
        today = UsageTotal("today")
        for each in by_person:
            today.add(each)
        return {
            "platforms": context.platforms,
            "turns": [(turn, _format_age(time.time() - turn.since)) for turn in turns[:_MAX_TURNS]],
            "more_turns": max(0, len(turns) - _MAX_TURNS),
            "queued": sum(turn.waiting for turn in turns),
            "queues": await context.reports.queue_status(since=midnight),
            "newest": await context.reports.parked(limit=_NEWEST),
            "today": today,
            "people": sorted(by_person, key=lambda each: -each.usd)[:_MAX_PEOPLE],
            "spent": await context.gateway.limits.budget.of_everybody(),
            "person_cap": context.loaded.config.limits.daily_usd_per_person,
            "lag": context.metrics.lag.worst,
            "warnings": [
                (each, EXPLANATIONS.get(each.kind, "See `hermes logs --level warning`."))
                for each in context.metrics.warnings[:_MAX_WARNINGS]
            ],
            "model": context.model,
        }

    return page.live("/dashboard", "dashboard/overview.html", gather)


def _format_age(seconds: float) -> str:
    return f"{max(0, int(seconds))} s" if seconds < 60 else format_duration(seconds)


# By the name of a log event, with commands between backticks.
EXPLANATIONS = {
    "budget.price_unknown": "The price of a model is unknown, so limits count an assumed price; see Spend.",
    "chat.flooded": "A person wrote faster than Hermes answers; Hermes refused some of their messages.",
    "chat.not_accepted": "Hermes could not store a message from a chat and told the person.",
    "compaction.failed": "A conversation could not be compacted; `hermes logs` says why.",
    "compression.summary_failed": "A summary could not be written; `hermes logs` says why.",
    "config.restart_required": "Some changed settings take effect only after a restart.",
    "config.rejected": "The changed `hermes.yaml` has a mistake, so the earlier settings stay in effect. "
    "Run `hermes config check`.",
    "engine.failed": "The context engine raised an error or took too long; `hermes logs` says which call.",
    "engine.fallback": "The context engine cannot be used, so Hermes uses the built-in one; `hermes doctor` says why.",
    "event_loop.blocked": "Code blocked Hermes for several seconds; `hermes logs` names the lines of code.",
    "event_loop.resumed": "Hermes works again after code had blocked it for several seconds.",
    "gateway.descriptors_exhausted": "Hermes ran out of open files; raise the limit (`LimitNOFILE=`, `ulimit -n`).",
    "gateway.job_crashed": "A background job crashed. This is a bug in Hermes.",
    "gateway.unreadable": "A stored message could not be read and was parked; see Parked.",
    "lcm.summary_failed": "A summary could not be written; `hermes logs` says why.",
    "media.transcription_failed": "A voice message could not be transcribed.",
    "model.fallback": "A model failed, and the next one of `model.fallbacks` answered.",
    "model.window_is_smaller": "A model accepts fewer tokens than configured; set `model.context_length`.",
    "pairing.wrong_code": "A person entered a wrong pairing code.",
    "platform.down": "A platform lost its connection; its card above says what to do.",
    "plugin.engine_hidden": "Two context engines have the same name; System shows which one is in use.",
    "plugin.engine_refused": "A plugin tried to register a second context engine. Only the first one counts; "
    "System shows which is in use.",
    "plugin.hook_skipped": "A hook of a plugin was skipped; System lists the hooks.",
    "store.damaged": "The database file is damaged; stop Hermes and run `hermes restore`.",
    "store.index_failed": "Messages could not be added to the search index; run `hermes doctor`.",
    "store.waited_for": "The database was busy or the disk was slow, and Hermes waited.",
    "turn.failed": "A message could not be answered; the person was told why.",
    "turn.parked": "Hermes gave up on a message after several attempts; see Parked.",
    "turn.waits_for_store": "An answer waits because the database cannot be written. Is the disk full?",
    "web.request_failed": "A request to the web server failed; the response said why.",
    "web.too_many_connections": "A client opened too many connections, so Hermes refused some.",
}
