"""What came of it, as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tests.e2e.chaos.kills import Report


def table(rows: Iterable[tuple[str, object]]) -> str:
    known = [(name, str(value)) for name, value in rows]
    width = max((len(name) for name, _ in known), default=0)
    return "\n".join(f"  {name:<{width}}  {value:>8}" for name, value in known)


def summary(report: Report) -> str:
    verdict, chaos = report.verdict, report.chaos
    counts = verdict.counts
    kinds = Counter(violation.kind for violation in verdict.violations)
    starts = sorted(report.starts)
    figures: list[tuple[str, object]] = [
        ("kills", sum(report.kills.values()) + sum(report.missed.values())),
        ("messages", counts["messages"]),
        ("not acknowledged (web)", counts["not acknowledged"]),
        ("stored once", counts["stored"]),
        ("answered once", counts["answered"]),
        ("complete replies seen", counts["replies"]),
        ("resumed turns", chaos.model.resumed),
        ("effects of tools", len(chaos.notebook.notes)),
        ("marked `(possibly sent twice)`", counts["marked"]),
        ("  of these repeated", counts["marked duplicates"]),
        ("  of these seen once", counts["marked, seen once"]),
        ("left by an uncertain send", counts["leftovers"] + counts["left hanging by an uncertain send"]),
        ("lost", kinds["lost"] + kinds["unanswered"] + kinds["no reply"] + kinds["incomplete reply"]),
        ("unmarked duplicates", kinds["unmarked duplicate"]),
        ("violations", len(verdict.violations) + len(report.damage)),
        ("median start, ms", round(1000 * starts[len(starts) // 2]) if starts else "-"),
        ("seconds", round(report.seconds)),
    ]
    parts = [f"Kill test, seed {report.seed}", table(figures)]
    parts += ["Killed when", table(sorted(report.kills.items()))]
    if report.missed:
        parts += ["Killed later, because the moment did not come", table(sorted(report.missed.items()))]
    if notices := [(name, count) for name, count in counts.items() if name.startswith("notice: ")]:
        parts += ["Notices", table(notices)]
    if kinds:
        parts += ["Violations", table(kinds.most_common())]
    return "\n".join(parts)
