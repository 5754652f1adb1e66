"""Paced live sessions: a number of them at a time for some minutes."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict
from typing import Any

from benchmarks.load.plan import Plans
from benchmarks.load.protocols import protocol
from benchmarks.load.trial import Load, run_trial
from benchmarks.load.usage import measured
from benchmarks.peers.figures import OURS, heard
from benchmarks.peers.servers import PEERS, Serving
from benchmarks.real_speech.scoring import scored

Row = dict[str, Any]
_WARM_UP_SECONDS = 15.0


def protocol_of(server: str) -> str:
    """Return the protocol of a server's live sessions; empty if it has none."""
    return "stream" if server == OURS else PEERS[server].live


def offline_of(server: str) -> str:
    """Return the configuration of whole recordings that a server's words are compared with."""
    return OURS if server == OURS else PEERS[server].offline


def warm_up(server: str, at: Serving, plans: Plans) -> None:
    """Run a session that is not measured."""
    measure(server, at, plans, 1, _WARM_UP_SECONDS)


def measure(server: str, at: Serving, plans: Plans, sessions: int, seconds: float) -> Row:
    """Run that many sessions at a time, and return the row."""
    with measured(at.process) as usage:
        run = protocol(protocol_of(server))
        trial = asyncio.run(run_trial(Load(sessions, seconds), plans, run, at.target))
    time.sleep(1.0)  # until sessions that were cancelled at the end are released
    return {
        "command": at.command,
        "offline": offline_of(server),
        "sessions": sessions,
        "seconds": trial.seconds,
        "late": trial.lateness,
        "audio_seconds": sum(len(r.sent_at) * r.packet_seconds for r in trial.offered),
        "cpu_seconds": usage.total_cpu_seconds,
        "peak_mib": usage.peak_mib,
        "heard": [
            asdict(heard(record, scored(record.plan.text, record.text, "English")))
            for record in trial.records
        ],
    }
