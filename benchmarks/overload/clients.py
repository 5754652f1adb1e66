"""Simulated clients: their arrivals, their speech, and the delay of their text."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from auricle.core.errors import Overloaded
from auricle.load.chunk_load import ChunkLoad
from auricle.processor.admission import Admission
from benchmarks.overload.machines import (
    CHUNK_SPREAD,
    SESSION_SPREAD,
    Machine,
    Simulation,
    spread,
)
from benchmarks.statistics import percentile

CHUNK_SECONDS = 0.64
TARGET_SECONDS = 0.3
STOP_SECONDS = 0.5
LENGTHS = (10.0, 60.0)
_SPEECH, _PAUSE = (2.0, 8.0), (0.3, 1.5)
_ENDPOINT_SECONDS = 0.0  # the endpoint's own delay is not load


@dataclass
class Outcome:
    """One client: the times of its request and its admission, and the delays of its text."""

    asked: float
    tenant: str = ""
    seconds: float = 0.0
    began: float | None = None
    ended: float | None = None
    refusals: int = 0
    late: list[float] = field(default_factory=list)
    stop: float = 0.0

    @property
    def kept(self) -> bool:
        """Whether the session was inside the SLO."""
        if self.stop > STOP_SECONDS:
            return False
        return not self.late or percentile(self.late, 0.95) <= TARGET_SECONDS


@dataclass
class Server:
    """The processor's part: the real classes, on simulated time."""

    sim: Simulation
    machine: Machine
    load: ChunkLoad
    admission: Admission


class Client:
    """Requests a session, retries after Retry-After, and then speaks."""

    def __init__(
        self, server: Server, outcome: Outcome, *, silent: bool = False, patience: float = 120.0
    ) -> None:
        self._server, self._outcome, self._silent = server, outcome, silent
        self._patience = patience

    def ask(self) -> None:
        """Request admission."""
        server, outcome = self._server, self._outcome
        name = uuid.UUID(int=server.sim.dice.getrandbits(128)).hex
        try:
            server.admission.admit(name, outcome.tenant)
        except Overloaded as refusal:
            outcome.refusals += 1
            # Clients round the time up, and are not punctual.
            again = refusal.retry_after_seconds + server.sim.dice.uniform(0.0, 1.0)
            if server.sim.now + again - outcome.asked < self._patience:
                server.sim.after(again, self.ask)
            return
        Session(server, outcome, name, silent=self._silent).begin()


class Session:
    """A session that speaks in segments, with at most one decode at a time, as in our server."""

    def __init__(self, server: Server, outcome: Outcome, name: str, *, silent: bool) -> None:
        self._server, self._outcome, self._name = server, outcome, name
        self._silent = silent
        self._work = spread(server.sim.dice, SESSION_SPREAD)
        self._live: AbstractContextManager[None] | None = None
        self._due: list[float] = []  # grid points without text
        self._under_way = False
        self._final_due: float | None = None
        self._speaking = False
        self._until = 0.0
        self._last = False

    def begin(self) -> None:
        """Begin to speak."""
        sim, outcome = self._server.sim, self._outcome
        outcome.began = sim.now
        self._until = sim.now + outcome.seconds
        self._live = self._server.admission.live(self._name, lambda: self._speaking)
        self._live.__enter__()
        if self._silent:
            sim.at(self._until, self._end)
        else:
            sim.after(sim.dice.uniform(0.2, 1.0), self._speak)

    def _speak(self) -> None:
        sim = self._server.sim
        self._speaking = True
        seconds = sim.dice.uniform(*_SPEECH)
        end = min(self._until, sim.now + seconds)
        points = int((end - sim.now) / CHUNK_SECONDS)
        for number in range(1, points + 1):
            sim.after(number * CHUNK_SECONDS, self._grid_point)
        sim.at(end + _ENDPOINT_SECONDS, self._segment_end)

    def _grid_point(self) -> None:
        self._due.append(self._server.sim.now)
        self._decode()

    def _segment_end(self) -> None:
        self._final_due = self._server.sim.now
        self._last = self._server.sim.now >= self._until - 1e-9
        self._decode()

    def _decode(self) -> None:
        if self._under_way:
            return
        if self._final_due is not None:
            self._run(final=True)
        elif self._due:
            self._run(final=False)

    def _run(self, *, final: bool) -> None:
        server = self._server
        self._under_way = True
        covered, self._due = self._due, []
        measured: AbstractContextManager[object] | None = None
        if not final:
            measured = server.load.chunk(covered[-1], covered[0])
            measured.__enter__()

        def done() -> None:
            if measured is not None:
                measured.__exit__(None, None, None)
            server.admission.observe()
            self._outcome.late += [server.sim.now - due for due in covered]
            self._under_way = False
            if final:
                self._finished()
            self._decode()

        server.machine.submit(self._work * spread(server.sim.dice, CHUNK_SPREAD), done)

    def _finished(self) -> None:
        sim = self._server.sim
        late = sim.now - (self._final_due or sim.now)
        self._final_due = None
        self._speaking = False
        if self._last:
            self._outcome.stop = late
            self._end()
        else:
            pause = sim.dice.uniform(*_PAUSE)
            if sim.now + pause >= self._until:
                sim.at(self._until, self._end)
            else:
                sim.after(pause, self._speak)

    def _end(self) -> None:
        if self._outcome.ended is None and self._live is not None:
            self._outcome.ended = self._server.sim.now
            self._live.__exit__(None, None, None)


def arrivals(
    server: Server,
    rate: Callable[[float], float],
    until: float,
    outcomes: list[Outcome],
    *,
    tenant: str = "",
    silent_share: float = 0.0,
    patience: float = 120.0,
) -> None:
    """Schedule clients that arrive at `rate(time)` per second, up to the time `until`."""
    sim = server.sim

    def one() -> None:
        if sim.now >= until:
            return
        outcome = Outcome(sim.now, tenant, sim.dice.uniform(*LENGTHS))
        outcomes.append(outcome)
        silent = sim.dice.random() < silent_share
        Client(server, outcome, silent=silent, patience=patience).ask()
        sim.after(sim.dice.expovariate(max(1e-6, rate(sim.now))), one)

    sim.after(sim.dice.expovariate(max(1e-6, rate(0.0))), one)
