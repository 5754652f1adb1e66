"""The campaign's JSON as its section of RESULTS.md.

python -m benchmarks.hostile.report build/hostile.json
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import generated
from benchmarks.generated import number, table
from benchmarks.hostile.figures import DESCRIPTORS_TOLERANCE, MEMORY_TOLERANCE_MIB

# figure → (what it is, its bar)
FIGURES: dict[str, tuple[str, str]] = {
    "hostile_cases": ("cases that were tried", "≥ 100,000"),
    "crashes": ("components that ended or were started again", "0"),
    "hangs": ("cases without an answer for 5 s where one was due", "0"),
    "answers_5xx": ("failures of the server: 5xx, close 1011, `internal`", "0"),
    "answers_leaking": ("errors that show an exception, a path, or the input at length", "0"),
    "attacks_not_held": ("attacks of the campaign that succeeded", "0"),
    "witness_changed_text": ("witnesses whose text was not what it is alone", "0"),
    "witness_errors": ("witnesses whose session failed", "0"),
    "witness_lag_p95_growth": ("95th percentile of the lag, worst attack ÷ alone", "≤ 1.5"),
    "longest_hold_ms": ("longest time that one client holds the frontend's loop", "≤ 5"),
    "growth_exponent_worst": ("operations against the size of what a client sends", "≤ 1.05"),
    "memory_left_mib": (
        "resident memory of the worst component after ÷ before",
        f"≤ {MEMORY_TOLERANCE_MIB:g}",
    ),
    "descriptors_left": ("descriptors of the worst component", f"≤ {DESCRIPTORS_TOLERANCE}"),
    "processes_left": ("processes", "0"),
    "files_left": ("temporary files", "0"),
    "log_lines_worst": ("lines in the log, worst attack", ""),
    "log_failures": ("lines of them that tell of a failure", "0"),
    "attackers_failed": ("areas and attacks in which the attacker itself failed", "0"),
}


def section(result: dict[str, Any], command: str, notes: str, note: str = "") -> Iterator[str]:
    """Return lines of Markdown; `notes` say how it is done, `note` what is odd in this run."""
    yield from generated.heading("Hostile input", result["environment"], command)
    yield from generated.figures(FIGURES, result["figures"], result.get("invalid", {}))
    if note:
        yield note
        yield ""
    yield notes.strip()
    yield ""
    rows = [
        [
            row["name"],
            f"{row['cases']}",
            row["outcome"],
            number(row["lag_growth"]) if row["lag_growth"] else "",
            f"{row['log_lines']}",
        ]
        for row in result["details"]["rows"]
    ]
    yield from table(["area or attack", "cases", "outcome", "lag growth", "log lines"], rows)


def main() -> None:
    """See the module."""
    parser = generated.parser(
        __doc__, "python -m benchmarks.hostile --out build/hostile.json [--quick]"
    )
    parser.add_argument("--notes", type=Path, default=Path(__file__).with_name("NOTES.md"))
    parser.add_argument("--note", default="", help="a sentence about this run")
    arguments = parser.parse_args()
    told = arguments.notes.read_text(), arguments.note
    generated.publish(
        "hostile", arguments.result, lambda result: section(result, arguments.command, *told)
    )


if __name__ == "__main__":
    main()
