"""Import time and memory of the gateway process, without the model library."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

_PROBE = """
import json, resource, sys, time
began = time.process_time()
{imports}
cpu = time.process_time() - began
rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
heavy = [name for name in ("litellm", "xllamacpp", "openai") if name in sys.modules]
print(json.dumps([cpu * 1000, rss, heavy]))
"""


def _measure(imports: str) -> tuple[float, float]:
    """Median CPU milliseconds and MB of seven fresh processes."""
    runs = []
    for _ in range(7):
        probe = [sys.executable, "-c", _PROBE.format(imports=imports)]
        cpu, rss, heavy = json.loads(subprocess.run(probe, check=True, capture_output=True, text=True).stdout)
        assert not heavy, f"imported too early: {heavy}"
        runs.append((cpu, rss))
    return statistics.median(cpu for cpu, _ in runs), statistics.median(rss for _, rss in runs)


def rows() -> list[tuple[str, str, str, str]]:
    bare_cpu, bare_rss = _measure("pass")
    cpu, rss = _measure("import gateway.run")
    web_cpu, web_rss = _measure("import gateway.run, gateway.platforms.web")
    cli_cpu, cli_rss = _measure("import gateway.cli")
    return [
        ("import gateway.run, CPU", f"{cpu - bare_cpu:.0f} ms", "< 350 ms", "constant"),
        ("import gateway.run, RSS", f"{rss:.0f} MB (bare Python {bare_rss:.0f})", "-", "constant"),
        ("... with the web platform", f"{web_cpu - bare_cpu:.0f} ms, {web_rss:.0f} MB", "-", "constant"),
        ("import gateway.cli, CPU", f"{cli_cpu - bare_cpu:.0f} ms, {cli_rss:.0f} MB", "-", "constant"),
    ]
