"""Schedules tests on workers: tests that share a slow start run on one worker, and those groups run first.

`--dist loadgroup` would do the same, but pytest-xdist 3.8 silently ignores its marks under pytest 9.2 and later.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

TOGETHER = (
    "tests/contract/platforms/",
    "tests/docs/test_blocks.py",
    "tests/unit/gateway/platforms/web/dashboard/test_browser",
    "tests/e2e/faults/test_delivery_faults.py",
    "tests/e2e/faults/test_model_faults.py",
    "tests/unit/plugins/lcm/test_running",
    "tests/unit/gateway/models/test_embedded.py",
    "tests/unit/gateway/plugins/test_docs.py",
    "tests/unit/gateway/platforms/web/test_browser",
)
"""Prefixes of the ids of tests that share something that takes seconds to start."""


class SharedStarts(LoadScopeScheduling):
    """Runs each group on one worker, the largest group first; every other test goes to any free worker."""

    def _split_scope(self, nodeid: str) -> str:
        return next((beginning for beginning in TOGETHER if nodeid.startswith(beginning)), nodeid)
