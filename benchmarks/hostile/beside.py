"""Runs one area or attack in its own process, with a witness beside it."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from auricle.audio.pcm import Int16
from auricle_testing.server import ROOT
from benchmarks.hostile.attackers.target import Target
from benchmarks.hostile.watch import Alive, Log, failures
from benchmarks.hostile.witness import Account, Witness

_LINE_BYTES = 1 << 22


@dataclass(frozen=True)
class Job:
    """What the attacker's process is asked to do; `seconds`: it is ended after that."""

    name: str
    arguments: tuple[str, ...]
    seconds: float


@dataclass
class Row:
    """One area or attack: what the attacker's process said, what the witness saw, what the log
    had. `alone` and `beside` are lags in seconds before and during it."""

    name: str
    said: dict[str, Any] = field(default_factory=dict)
    remarkable: list[dict[str, Any]] = field(default_factory=list)
    account: Account = field(default_factory=Account)
    alone: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    seconds: float = 0.0
    log_lines: int = 0
    log_failures: list[str] = field(default_factory=list)
    last_case: str = ""
    trouble: str = ""


async def attacked_beside(
    url: str,
    key: str,
    packets: Iterator[Int16],
    target: Target,
    job: Job,
    log: Log,
    lead_seconds: float,
    folder: Path,
) -> Row:
    """Run the job beside a witness that had `lead_seconds` to itself before."""
    row = Row(job.name)
    log.since()
    alive = Alive(url)
    watching = asyncio.create_task(alive.run())
    witness = Witness(url, key, packets)
    await witness.begin()
    opened = time.monotonic()
    await asyncio.sleep(lead_seconds)
    began = time.monotonic()
    named = msgspec.structs.replace(target, witness=witness.account.session)
    file = folder / "target.json"
    file.write_bytes(msgspec.json.encode(named))
    await _run(job, file, row)
    ended = time.monotonic()
    row.account = await witness.end()
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    row.seconds = ended - began
    row.alone = row.account.during(opened, began)
    row.beside = row.account.during(began, ended)
    lines = log.since()
    row.log_lines, row.log_failures = len(lines), failures(lines)
    if alive.failures:
        row.trouble = "; ".join([row.trouble, *alive.failures[:3]]).strip("; ")
    return row


async def _run(job: Job, target: Path, row: Row) -> None:
    """Run the attacker's process and take what it says into the row."""
    command = [sys.executable, "-m", "benchmarks.hostile.attack", job.name, *job.arguments]
    process = await asyncio.create_subprocess_exec(
        *command, "--target", str(target), cwd=ROOT, limit=_LINE_BYTES,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None and process.stderr is not None
    errors = asyncio.create_task(process.stderr.read())
    try:
        async with asyncio.timeout(job.seconds):
            async for line in process.stdout:
                _take(line, row)
            await process.wait()
    except TimeoutError:
        row.trouble = f"the attacker was not done after {job.seconds:g} s"
        process.kill()
        await process.wait()
    text = (await errors).decode(errors="replace")
    if process.returncode != 0 and not row.trouble:
        row.trouble = f"the attacker ended with {process.returncode}: {text[-2000:]}"


def _take(line: bytes, row: Row) -> None:
    try:
        said = json.loads(line)
    except ValueError:
        return  # a library's own words
    if "at" in said:
        row.last_case = said["at"]
    elif "id" in said:
        row.remarkable.append(said)
    else:
        row.said.update(said)
