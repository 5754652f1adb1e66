"""Hostile input against a running graph, over loopback, beside a witness.

    python -m benchmarks.hostile --out FILE [--quick] [--seed N] [--only NAME …]
    python -m benchmarks.hostile --replay ID

The first form starts the graph, sends the cases of each area (`areas.py`) and tries each attack
of the campaign (`campaign.py`), with a live session of fresh speech beside each, and writes the
figures and everything unexpected to FILE; the graph's log lies beside it. It ends with 1 if
something failed. The second sends one case again, and shows what is said about it.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import signal
import sys
from pathlib import Path
from typing import Any

from benchmarks.harness import environment
from benchmarks.hostile import growth as operations
from benchmarks.hostile import holds
from benchmarks.hostile.areas import AREAS
from benchmarks.hostile.campaign import CAMPAIGN
from benchmarks.hostile.case import make, parse_id
from benchmarks.hostile.figures import cases, changed, figures, growth
from benchmarks.hostile.graph import Graph, running
from benchmarks.hostile.replay import replay
from benchmarks.hostile.run import FULL, QUICK, Campaign, run

_MUST_BE_NONE = (
    "crashes", "hangs", "answers_5xx", "witness_changed_text", "witness_errors", "attackers_failed"
)  # fmt: skip
_MOST_BYTES = 4_096


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true", help="5,000 cases, about four minutes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", metavar="NAME", nargs="+", choices=[*AREAS, *CAMPAIGN])
    parser.add_argument("--replay", metavar="ID", help="of an unexpected case, as in FILE")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if arguments.replay is not None:
        with running() as graph:
            asyncio.run(replay(graph, arguments.replay))
        return
    if arguments.out is None:
        parser.error("--out FILE or --replay ID is needed")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    scale = QUICK if arguments.quick else FULL
    found = Campaign()
    try:
        with running() as graph:
            try:
                asyncio.run(run(graph, arguments.seed, scale, arguments.only or (), found))
            finally:
                _keep_log(graph, arguments.out)
    finally:  # what was found until then is worth as much
        measured = figures(found) | ({} if arguments.only else _of_the_process(arguments.quick))
        _keep(arguments, found, measured)
    for name, value in measured.items():
        print(f"{name:28} {value:.6g}")
    sys.exit(any(measured[name] for name in _MUST_BE_NONE))


def _keep(arguments: argparse.Namespace, found: Campaign, measured: dict[str, float]) -> None:
    result = {
        "figures": measured,
        "details": _details(found),
        "environment": environment(),
        "seed": arguments.seed,
    }
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")


def _keep_log(graph: Graph, out: Path) -> None:
    out.with_suffix(".log").write_text("\n".join(graph.server.log) + "\n")


def _of_the_process(quick: bool) -> dict[str, float]:
    """What is measured in this process, without a graph: operations, and time on the loop."""
    return {
        "growth_exponent_worst": operations.measure(quick=quick).growth_exponent_worst,
        "longest_hold_ms": holds.measure(quick=quick).longest_hold_ms,
    }


def _details(found: Campaign) -> dict[str, Any]:
    alone = [lag for row in found.rows for lag in row.alone]
    rows = [
        {
            "name": row.name,
            "cases": cases(row),
            "outcome": _outcome(row.said),
            "seconds": row.seconds,
            "lag_growth": growth(row, alone),
            "alone": row.alone,
            "beside": row.beside,
            "log_lines": row.log_lines,
            "log_failures": row.log_failures[:50],
            "last_case": row.last_case,
            "trouble": row.trouble,
            "witness_error": row.account.error,
            "witness_changed": changed(row, found),
            "witness_text": row.account.text,
            "witness_text_alone": getattr(found.references.get(row.name), "text", ""),
            "said": row.said,
        }
        for row in found.rows
    ]
    unexpected = [one | _bytes(one["id"]) for row in found.rows for one in row.remarkable]
    held = {
        when: {name: [held.memory_mib, held.descriptors, held.processes]
               for name, held in footprint.components.items()}
        for when, footprint in (("before", found.before), ("after", found.after))
        if footprint is not None
    }  # fmt: skip
    return {"rows": rows, "unexpected": unexpected, "held": held, "pids": found.main_pids}


def _outcome(said: dict[str, Any]) -> str:
    if "lost" in said:
        return f"not tried: {said['lost']}"
    if "held" in said:
        return f"{'held' if said['held'] else 'not held'}: {said['detail']}"
    return ", ".join(f"{count} {name}" for name, count in said.get("verdicts", {}).items())


def _bytes(case_id: str) -> dict[str, str]:
    """What was sent, as far as it is not too long; `--replay` makes all of it again."""
    area, seed, number = parse_id(case_id)
    data = repr(make(area, seed, number, AREAS[area].generate).data).encode()
    return {"sent": base64.b64encode(data[:_MOST_BYTES]).decode()}


if __name__ == "__main__":
    main()
