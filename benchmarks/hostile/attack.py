"""The attacker's process: sends the cases of one area, or one attack of the campaign.

    python -m benchmarks.hostile.attack AREA --target FILE --seed N --first N --count N

It is a process of its own so that its work does not delay the witness, and of low priority.
Each line that it prints is a JSON object: the latest case, an unexpected one, or the summary.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from pathlib import Path

import msgspec

from benchmarks.hostile.areas import AREAS
from benchmarks.hostile.attackers.target import Target
from benchmarks.hostile.attackers.wire import AttackerFailed
from benchmarks.hostile.campaign import CAMPAIGN
from benchmarks.hostile.case import Case, make
from benchmarks.hostile.pool import attacked

_NICE = 10
_SAY_SECONDS = 0.25
_MOST_SHOWN = 100


class _Says:
    """Prints which case began last, a few times a second."""

    def __init__(self) -> None:
        self._last = 0.0

    def begins(self, case: Case) -> None:
        now = time.monotonic()
        if now - self._last > _SAY_SECONDS:
            self._last = now
            say(at=case.id)


def say(**what: object) -> None:
    """Print one line."""
    print(json.dumps(what), flush=True)


async def run_area(
    name: str, target: Target, seed: int, first: int, count: int, seconds: float
) -> None:
    """Send the cases of an area."""
    area = AREAS[name]
    made = (make(name, seed, n, area.generate) for n in range(first, first + count))
    tally = await attacked(area, target, made, _Says().begins, seconds)
    for case, outcome in tally.remarkable[:_MOST_SHOWN]:
        say(id=case.id, kind=case.kind, verdict=outcome.verdict, detail=outcome.detail)
    say(
        verdicts=dict(tally.verdicts),
        kinds=dict(tally.kinds),
        tried=tally.tried,
        busy=dict(tally.busy.most_common(5)),
        late=tally.late,
    )


async def run_attack(name: str, target: Target, scale: float) -> None:
    """Run one attack of the campaign."""
    try:
        result = await CAMPAIGN[name].run(target, scale)
    except AttackerFailed as error:
        say(lost=str(error))
        return
    say(held=result.held, detail=result.detail, cases=result.cases)


def liars_environment(target: Target) -> dict[str, str]:
    """What a Dynamo runtime reads to find the graph; its own processes have it from settings."""
    return {
        "DYN_FILE_KV": target.discovery,
        "DYN_DISCOVERY_BACKEND": "file",
        "DYN_REQUEST_PLANE": "tcp",
        "DYN_EVENT_PLANE": "zmq",
        "DYN_LOG": "warn",
    }


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=[*AREAS, *CAMPAIGN])
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--seconds", type=float, default=60.0, help="no case begins after that")
    arguments = parser.parse_args()
    os.nice(_NICE)
    os.umask(0o077)  # as the server's: a folder that Dynamo makes here is not one left open by it
    target = msgspec.json.decode(arguments.target.read_bytes(), type=Target)
    os.environ |= liars_environment(target)
    if arguments.name in CAMPAIGN:
        asyncio.run(run_attack(arguments.name, target, arguments.scale))
    else:
        a = arguments
        asyncio.run(run_area(a.name, target, a.seed, a.first, a.count, a.seconds))


if __name__ == "__main__":
    main()
