"""Partitions between the hosts of a graph, under live sessions.

    python -m benchmarks.faults.partitions --out FILE [--quick] [--seed N] [--count N]
                                           [--only KIND …] [--resume]

Starts a graph on hosts made of network namespaces (it needs root), transcribes each recording
undisturbed, and then disturbs the network between hosts that two live sessions use, one fault
after the other. Every transcript is compared word by word with the undisturbed one. Rows are
appended to FILE at once (`--resume` continues it); the logs of all processes are next to it. Exits
with 1 if a word was lost or doubled, a session failed, or a host did not recover.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import httpx

from auricle_testing.hosts import missing
from auricle_testing.several_hosts import ROLES, Deployment, deployed
from auricle_testing.transcripts import compared
from benchmarks.faults.figures import Heard, Row, first_after
from benchmarks.faults.sessions import Session
from benchmarks.harness import Journal, add_sizes, end_with_signals, environment, new_parser, show
from benchmarks.statistics import percentile

CONTROL = "none"
_SHORT = (3.0, 6.0)
_AHEAD_SECONDS = 30
_LONGER_THAN_A_LEASE = (14.0, 18.0)
_DELAY_SECONDS, _LOSS = 0.2, 0.05
_SESSIONS = 2  # at a time, at different frontends first
_AUDIO = ("market", "evening")
_EARLIEST, _LATEST = 0.1, 0.5
_UNDISTURBED_ROUNDS = 2  # the first sessions are slower
# After a fault: sessions of clients that have gone, and processes that restart.
_GONE_SECONDS, _WHOLE_SECONDS = 20.0, 120.0
_AFTER_SECONDS = 5.0  # text that was due by then shows the recovery
_NEVER = 9_999.0  # JSON has no infinity
_MUST_BE_NONE = (
    *("words_lost", "words_doubled", "sessions_failed", "promises_broken"),
    *("sessions_left", "hosts_left", "faults_not_injected"),
)


@dataclass(frozen=True)
class Kind:
    """A disturbance of the hosts, in use, of these roles; `quick` is its number in `--quick`."""

    name: str
    action: str
    roles: tuple[str, ...]
    what: str
    seconds: tuple[float, float] = _SHORT
    quick: int = 0


def _kinds() -> list[Kind]:
    pairs = (("frontend", "processor"), ("processor", "encode"), ("processor", "pd"))
    kinds = []
    for one, other in (*pairs, ("pd", "encode")):
        kinds += [
            Kind(f"cut-{one}-{other}", "cut", (one, other), "no packet passes", quick=1),
            Kind(f"cut-{one}-to-{other}", "cut_one_way", (one, other),
                 f"no packet passes from {one} to {other}"),
            Kind(f"cut-{other}-to-{one}", "cut_one_way", (other, one),
                 f"no packet passes from {other} to {one}"),
        ]  # fmt: skip
    for role in ("frontend", "processor", "encode", "pd"):
        kinds += [
            Kind(f"unplug-{role}", "unplug", (role,), "its link is down"),
            Kind(f"delay-{role}", "delay", (role,), "its packets are late by 0.2 s"),
            Kind(f"loss-{role}", "loss", (role,), "5 % of its packets are lost"),
            Kind(f"etcd-{role}", "cut_from_etcd", (role,),
                 "it does not reach etcd for longer than its lease", _LONGER_THAN_A_LEASE),
        ]  # fmt: skip
    kinds += [
        Kind("long-processor", "unplug", ("processor",),
             "its link is down for longer than its lease", _LONGER_THAN_A_LEASE),
        Kind("long-encode", "unplug", ("encode",),
             "its link is down for longer than its lease", _LONGER_THAN_A_LEASE),
        Kind("long-pd", "unplug", ("pd",),
             "its link is down for longer than its lease", _LONGER_THAN_A_LEASE),
        Kind("kill-etcd-member", "kill_member", ("etcd",), "SIGKILL of a follower; started again"),
        Kind("kill-etcd-leader", "kill_leader", ("etcd",), "SIGKILL of the leader; started again",
             quick=1),
        Kind("unplug-etcd-leader", "unplug_leader", ("etcd",), "the leader's link is down"),
        Kind("kill-nats", "kill", ("nats",), "SIGKILL; started again"),
        Kind("clock-processor", "clock", ("processor",), "its wall clock is 30 s ahead"),
        Kind(CONTROL, "none", (), "nothing: how late text is without a fault", quick=1),
        Kind("unplug-nats", "unplug", ("nats",), "its link is down"),
    ]  # fmt: skip
    return kinds


KINDS = {kind.name: kind for kind in _kinds()}


@dataclass(frozen=True)
class Fault:
    """Fault `number` of a plan, injected once `share` of the audio was sent."""

    number: int
    kind: str
    audio: str
    share: float
    seconds: float


def planned(seed: int, only: Sequence[str], count: int | None, *, quick: bool) -> list[Fault]:
    """Return the faults of a run; the same arguments give the same list."""
    dice = random.Random(seed)
    chosen = [KINDS[name] for name in only] or [k for k in KINDS.values() if k.quick or not quick]
    number = count or (len(chosen) if quick or only else 5 * len(chosen))
    rounds = -(-number // len(chosen))
    kinds = [kind for _ in range(rounds) for kind in dice.sample(chosen, len(chosen))]
    return [
        Fault(n, kind.name, dice.choice(_AUDIO), round(dice.uniform(_EARLIEST, _LATEST), 3),
              round(dice.uniform(*kind.seconds), 1))
        for n, kind in enumerate(islice(cycle(kinds), number))
    ]  # fmt: skip


@dataclass
class Injector:
    """Injects faults into the hosts that sessions use since the last `prepare`."""

    deployment: Deployment
    _before: dict[str, float] = field(default_factory=dict)
    _ended: list[str] = field(default_factory=list)
    _clocks: list[str] = field(default_factory=list)

    def prepare(self) -> None:
        """Note the counters of all workers."""
        self._before = {h: self._used(h) for role in ("encode", "pd") for h in ROLES[role]}

    def begin(self, kind: Kind) -> list[str]:
        """Inject a fault; return the disturbed hosts."""
        hosts = [self._in_use(role) for role in kind.roles]
        network = self.deployment.network
        if kind.action == "none":
            return hosts
        if kind.action == "clock":
            self.deployment.set_clock(hosts[0], _AHEAD_SECONDS)
            self._clocks.append(hosts[0])
        elif kind.action in ("cut", "cut_one_way"):
            network.cut(*hosts)
            if kind.action == "cut":
                network.cut(*reversed(hosts))
        elif kind.action == "cut_from_etcd":
            for member in ROLES["etcd"]:
                network.cut(hosts[0], member)
                network.cut(member, hosts[0])
        elif kind.action in ("delay", "loss"):
            delay = _DELAY_SECONDS if kind.action == "delay" else 0.0
            network.disturb(hosts[0], delay_seconds=delay, loss=0.0 if delay else _LOSS)
        else:
            hosts = [self._of_etcd(kind.action)] if kind.roles == ("etcd",) else hosts
            if kind.action.startswith("kill"):
                self.deployment.programs[hosts[0]].end(signal.SIGKILL)
                self._ended.append(hosts[0])
            else:
                network.unplug(hosts[0])
        return hosts

    def end(self) -> None:
        """End the fault."""
        self.deployment.network.heal()
        while self._clocks:
            self.deployment.set_clock(self._clocks.pop(), 0)
        while self._ended:
            self.deployment.programs[self._ended.pop()].start()

    def _of_etcd(self, action: str) -> str:
        leader = self.deployment.etcd_leader()
        if action.endswith("leader"):
            return leader
        return next(host for host in ROLES["etcd"] if host != leader)

    def _in_use(self, role: str) -> str:
        """Return the host of a role that works for the sessions; the first if there is one."""
        if role in ("encode", "pd"):
            return max(ROLES[role], key=lambda host: self._used(host) - self._before[host])
        if role == "processor":
            return max(ROLES[role], key=self._used)
        return ROLES[role][0]

    def _used(self, host: str) -> float:
        """Return the work of a host so far; 0 if its process is restarting."""
        name = {"encode": "auricle_encode_worker_windows_encoded_total",
                "pd": "auricle_pd_worker_decodes_total",
                "processor": "auricle_processor_sessions"}[host.rstrip("12")]  # fmt: skip
        with contextlib.suppress(httpx.HTTPError):
            return self.deployment.metric(host, name)
        return 0.0


@dataclass(frozen=True)
class Reference:
    """The text of a recording with its times, without any fault."""

    text: str
    heard: tuple[Heard, ...]


def late_after(
    undisturbed: Sequence[Heard], found: Sequence[Heard], from_seconds: float, healed: float
) -> float:
    """Return how long after the end of a fault, which began at `from_seconds`, text was late.

    Text is late by the time after it was due, or after the end of the fault if that is later.
    """
    due = [(at, ms) for at, ms in undisturbed if from_seconds <= at <= healed + _AFTER_SECONDS]
    return max((first_after(found, ms) - max(at, healed) for at, ms in due), default=0.0)


@dataclass
class Campaign:
    """Injects faults one after the other; `record` gets every row when it is complete."""

    deployment: Deployment
    record: Callable[[Row], None]
    references: dict[str, Reference] = field(default_factory=dict)

    async def run(self, plan: Sequence[Fault]) -> None:
        for _ in range(_UNDISTURBED_ROUNDS):
            for audio in sorted({fault.audio for fault in plan}):
                await self._undisturbed(audio)
        for audio, reference in self.references.items():
            self.record({"type": "reference", "audio": audio, "text": reference.text})
        for fault in plan:
            self.record(await self._trial(fault))

    def _sessions(self, audio: str) -> list[Session]:
        urls = self.deployment.urls
        turns = [urls[n % len(urls) :] + urls[: n % len(urls)] for n in range(_SESSIONS)]
        return [Session(turn, audio) for turn in turns]

    async def _undisturbed(self, audio: str) -> None:
        sessions = self._sessions(audio)
        await asyncio.gather(*(session.run() for session in sessions))
        for session in sessions:
            if session.error or session.broken:
                raise RuntimeError(f"an undisturbed session failed: {session.error}")
        self.references[audio] = Reference(sessions[0].text, tuple(sessions[0].heard))

    async def _trial(self, fault: Fault) -> Row:
        kind, injector = KINDS[fault.kind], Injector(self.deployment)
        await asyncio.to_thread(injector.prepare)
        sessions = self._sessions(fault.audio)
        running = [asyncio.create_task(session.run(fault.share)) for session in sessions]
        why, hosts, at, healed = "the session had failed before", list[str](), 0.0, 0.0
        if await sessions[0].reached():
            try:
                hosts = await asyncio.to_thread(injector.begin, kind)
                why, at = "", sessions[0].now
                await asyncio.sleep(fault.seconds)
            except LookupError as error:
                why = str(error)
            finally:
                await asyncio.to_thread(injector.end)
            healed = sessions[0].now
        await asyncio.gather(*running)
        left = await self._left()
        whole = await self._whole()
        return {
            "type": "fault", "number": fault.number, "kind": fault.kind, "audio": fault.audio,
            "lasts": fault.seconds, "hosts": hosts, "injected": not why, "why_not": why,
            "sessions_left": left, "whole": whole,
            "sessions": [self._row(fault, session, at, healed) for session in sessions],
        }  # fmt: skip

    async def _left(self) -> float:
        """Return the number of sessions that processors still hold after all clients have ended."""
        deadline = time.monotonic() + _GONE_SECONDS
        while True:
            found = await asyncio.to_thread(self._held)
            if not found or time.monotonic() > deadline:
                return found
            await asyncio.sleep(0.5)

    def _held(self) -> float:
        found = 0.0
        for host in ROLES["processor"]:
            with contextlib.suppress(httpx.HTTPError):  # it is restarting
                found += self.deployment.metric(host, "auricle_processor_sessions")
        return found

    async def _whole(self) -> float | None:
        """Return the seconds until all hosts are healthy again; None if they do not recover."""
        began = time.monotonic()
        while not await asyncio.to_thread(self.deployment.whole):
            if time.monotonic() - began > _WHOLE_SECONDS:
                return None
            await asyncio.sleep(0.5)
        return round(time.monotonic() - began, 1)

    def _row(self, fault: Fault, session: Session, at: float, healed: float) -> Row:
        reference = self.references[fault.audio]
        words = compared(reference.text, session.text)
        late = late_after(reference.heard, session.heard, at, healed)
        return {
            "lost": words.lost, "doubled": words.doubled, "changed": words.changed,
            "error": session.error, "broken": session.broken, "text": session.text,
            "resumes": len(session.losses), "at": round(at, 3), "healed": round(healed, 3),
            "recovery": round(max(0.0, late), 3) if math.isfinite(late) else _NEVER,
        }  # fmt: skip


def figures(rows: Iterable[Row]) -> dict[str, float]:
    """Return the figures of all rows of a run."""
    faults = [row for row in rows if row["type"] == "fault"]
    sessions = [session for row in faults for session in row["sessions"]]
    done = [row for row in faults if row["injected"]]
    control = [row for row in done if row["kind"] == CONTROL]
    faults_only = [row for row in done if row["kind"] != CONTROL]
    found: dict[str, float] = {
        "faults_injected": len(faults_only),
        "kinds": len({row["kind"] for row in faults_only}),
        "words_lost": sum(session["lost"] for session in sessions),
        "words_doubled": sum(session["doubled"] for session in sessions),
        "words_changed": sum(session["changed"] for session in sessions),
        "sessions_failed": sum(bool(session["error"]) for session in sessions),
        "promises_broken": sum(bool(session["broken"]) for session in sessions),
        "sessions_left": sum(row["sessions_left"] for row in faults),
        "hosts_left": sum(row["whole"] is None for row in faults),
        "faults_not_injected": len(faults) - len(done),
    }
    for name, of_kind in (("recovery", faults_only), ("control", control)):
        late = [session["recovery"] for row in of_kind for session in row["sessions"]]
        if late:
            found[f"{name}_p95_s"] = percentile(late, 0.95, method="higher")
    return found


def main() -> None:
    """Run the campaign of the command line."""
    parser = new_parser(__doc__)
    parser.add_argument("--out", type=Path, required=True)
    add_sizes(parser, ("quick",))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", "--only", metavar="KIND", nargs="+", choices=[*KINDS])
    parser.add_argument("--count", type=int, help="number of faults; by default five of each kind")
    parser.add_argument("--resume", action="store_true", help="continue FILE")
    chosen = parser.parse_args()
    end_with_signals()
    if why := missing():
        parser.error(why)
    quick = chosen.size == "quick"
    plan = planned(chosen.seed, chosen.kinds or [], chosen.count, quick=quick)
    journal = Journal(chosen.out)
    if chosen.resume:
        done = {row["number"] for row in journal.rows() if row["type"] == "fault"}
        plan = [fault for fault in plan if fault.number not in done]
    else:
        journal.begin()
        journal.add({"type": "run", "environment": environment()})
    if plan:
        _run(plan, journal)
    measured = figures(journal.rows())
    show(measured)
    sys.exit(any(measured[name] for name in _MUST_BE_NONE))


def _run(plan: Sequence[Fault], journal: Journal) -> None:
    def record(row: Row) -> None:
        journal.add(row)
        print(_line(row), flush=True)

    with (
        tempfile.TemporaryDirectory(prefix="partitions-") as folder,
        deployed(Path(folder), settable_clocks=ROLES["processor"]) as deployment,
    ):
        try:
            asyncio.run(Campaign(deployment, record).run(plan))
        finally:
            logs = journal.path.with_suffix(".logs")
            logs.mkdir(exist_ok=True)
            for host, program in deployment.programs.items():
                (logs / f"{host}.log").write_text("\n".join(program.log) + "\n")


def _line(row: dict[str, Any]) -> str:
    if row["type"] == "reference":
        return f"undisturbed {row['audio']}: {row['text']}"
    said = [f"{row['number']:3} {row['kind']:26} {row['lasts']:4} s {' '.join(row['hosts'])}"]
    said += [
        "{lost} lost, {doubled} doubled, {changed} changed, {recovery:g} s after {error}{broken}"
        "".format(**session)
        for session in row["sessions"]
    ]
    said += [f"{row['sessions_left']:g} sessions left"] if row["sessions_left"] else []
    said += ["not whole"] if row["whole"] is None else []
    return "; ".join([*said, *([row["why_not"]] if row["why_not"] else [])])


if __name__ == "__main__":
    main()
