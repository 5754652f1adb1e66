"""The benchmark's JSON as its section of RESULTS.md.

python -m benchmarks.overload.report build/overload.json
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks import generated
from benchmarks.generated import number, table
from benchmarks.overload.parts import TIMES


def _of_floods() -> dict[str, tuple[str, str]]:
    found = {}
    for times in TIMES:
        found |= {
            f"overload_slo_share_{times}x": (
                f"sessions let in, inside the SLO, {times} times the capacity offered", "≥ 0.99"
            ),
            f"overload_goodput_share_{times}x": (
                "sessions inside the SLO at a time ÷ those at capacity",
                "≥ 0.9" if times == 3 else "",
            ),
            f"normal_after_{times}x_s": ("from the flood's end to a new client let in", "≤ 10"),
        }  # fmt: skip
    return found


# figure → (what it is, its bar)
FIGURES: dict[str, tuple[str, str]] = {
    "capacity_sessions": ("sessions carried where nobody is refused", ""),
    "capacity_goodput": ("of these, inside the SLO at a time", ""),
    "idle_wait_s": ("until the first client of a server without sessions is let in", ""),
    **_of_floods(),
    "refusals_unclear": ("refusals after the handshake, or without Retry-After", "0"),
    "sessions_stretched": ("sessions promised a longer cadence than they asked for", "0"),
    "slower_slo_share": ("machine half as fast, a session's length later", "≥ 0.99"),
    "slower_at_once_slo_share": ("machine half as fast, from that moment on", ""),
    "faster_slo_share": ("machine twice as fast again", "≥ 0.99"),
    "tenant_lag_ratio": ("another tenant's lag, p95, beside a flood ÷ alone", "≤ 2"),
    "tenant_latency_ratio": ("the same of its partials' latency", ""),
    "tenant_wait_p95_s": ("until it is let in, beside a flood", ""),
    "priority_wait_p95_s": ("the same with a key of high priority", ""),
    "flood_wait_p95_s": ("the same of the tenant that floods", ""),
}
_COLUMNS = {
    "sessions_offered": "offered",
    "sessions": "let in",
    "slo_share": "inside the SLO",
    "goodput": "goodput",
    "clients_refused": "clients refused",
    "wait_p50_s": "wait p50, s",
    "partial_lag_p95_ms": "lag p95, ms",
    "latency_p95_ms": "latency p95, ms",
    "wer": "WER",
}


def section(result: dict[str, Any], command: str) -> Iterator[str]:
    """Return lines of Markdown."""
    trials = {n: found for n, found in result["details"].items() if n != "capacity"}
    counted = {
        name: float(sum(found[name] for found in trials.values()))
        for name in ("refusals_unclear", "sessions_stretched")
    }
    yield from generated.heading("Overload", result["environment"], command)
    yield from generated.figures(FIGURES, result["figures"] | counted, result["invalid"])
    rows = [
        [name.replace("_", ", "), *(number(found[column]) for column in _COLUMNS)]
        for name, found in trials.items()
    ]
    yield from table(["trial", *_COLUMNS.values()], rows)


def main() -> None:
    """See the module."""
    command = "python -m benchmarks.overload --out build/overload.json [--quick]"
    generated.report(__doc__, "overload", command, section)


if __name__ == "__main__":
    main()
