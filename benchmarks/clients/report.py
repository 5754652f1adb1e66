"""The benchmark's JSON as its section of RESULTS.md.

python -m benchmarks.clients.report build/clients.json
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks import generated
from benchmarks.clients.figures import REFERENCES
from benchmarks.generated import number, table

_COLUMNS = {
    "same_text": "texts equal",
    "first_text_ratio": "first text ÷",
    "kept_text_ratio": "first text that stays ÷",
    "last_text_ratio": "last text ÷",
    "cpu_ratio": "CPU ÷",
}


def section(result: dict[str, Any], command: str) -> Iterator[str]:
    """Return lines of Markdown."""
    measured = result["figures"]
    rest = ", definitions in [METRICS.md](METRICS.md#clients)"
    yield from generated.heading("Clients", result["environment"], command, rest)
    yield (
        f"{measured['clients_sessions']:.0f} sessions. Bars: all texts equal, first and last text "
        "≤ 1.3, CPU of frontend and processor ≤ 1.5, each ÷ that of our own protocol in the same "
        "round."
    )
    yield ""
    rows = [[way, own, *_row(way, measured)] for way, own in REFERENCES.items()]
    yield from table(["way in", "beside", *_COLUMNS.values()], rows)


def _row(way: str, measured: dict[str, float]) -> Iterator[str]:
    for column in _COLUMNS:
        name = f"clients_{column}_{way}"
        if name not in measured:
            yield ""
        elif f"{name}_low" in measured:
            low, high = measured[f"{name}_low"], measured[f"{name}_high"]
            yield f"{number(measured[name])} ({number(low)} to {number(high)})"
        else:
            yield number(measured[name])


def main() -> None:
    """See the module."""
    command = "python -m benchmarks.clients --out build/clients.json"
    generated.report(__doc__, "clients", command, section)


if __name__ == "__main__":
    main()
