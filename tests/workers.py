"""Which tests share a worker, and in which order the workers get them.

`--dist loadgroup` was for this, but from pytest 9.2 on pytest-xdist 3.8 cannot see its marks any more, and says nothing
about it. A path is all that is needed.
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
"""How the ids begin of tests that share something which takes seconds to start."""


class SharedStarts(LoadScopeScheduling):
    """Every other test goes to whichever worker is free. What stays together is begun first, the most tests in front,
    so that no worker is left with it when the others have nothing more to do."""

    def _split_scope(self, nodeid: str) -> str:
        return next((beginning for beginning in TOGETHER if nodeid.startswith(beginning)), nodeid)
