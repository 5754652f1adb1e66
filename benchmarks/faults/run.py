"""Runs every fault of a plan, each in a session of its own, some sessions at a time."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from auricle.client.stream import Event
from auricle_testing.services import stored_messages
from auricle_testing.transcripts import compared, events_compared, on_the_bus
from benchmarks.faults.door import Door
from benchmarks.faults.figures import Heard, Row, recovery_seconds
from benchmarks.faults.graph import Graph
from benchmarks.faults.inject import Injection, NotDone
from benchmarks.faults.kinds import CONTROL, REQUEST_PLANE
from benchmarks.faults.plan import Fault, audios
from benchmarks.faults.sessions import Session

_NEVER = 9_999.0  # JSON has no infinity


@dataclass(frozen=True)
class Reference:
    """The text of a recording with its times, without any fault."""

    text: str
    heard: tuple[Heard, ...]
    events: tuple[Event, ...]


@dataclass
class Run:
    """Injects faults into `graph`, with `lanes` sessions at a time.

    `record` is called with every row as soon as it is complete.
    """

    graph: Graph
    lanes: int
    record: Callable[[Row], None]
    references: dict[str, Reference] = field(default_factory=dict)
    finals: list[str] = field(default_factory=list)  # that clients have received
    _live: list[Session] = field(default_factory=list)
    _busy: set[str] = field(default_factory=set)
    _freed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def all(self, plan: Sequence[Fault]) -> None:
        """Inject all faults. Raises AssertionError if the graph does not recover.

        Calls use the request plane for its own faults. For all other faults they use local sockets,
        as on users' machines.
        """
        doors = [await self.graph.door(number) for number in range(self.lanes)]
        of_plane = [fault for fault in plan if fault.of.plane == REQUEST_PLANE]
        others = [fault for fault in plan if fault not in of_plane]
        await self._undisturbed(audios(plan), doors)
        try:
            async with asyncio.TaskGroup() as group:
                await self._lanes(of_plane, group, doors)
                await self.graph.sockets.show()
                await self._lanes(others, group, doors)
        except* AssertionError as failed:
            raise AssertionError(str(failed.exceptions[0])) from failed

    async def bus(self) -> Row:
        """Compare the transcript bus with the finals of clients."""
        messages = await stored_messages(self.graph.nats.address)
        texts = [message["text"] for message in messages if message["type"] == "final"]
        missing, surplus = on_the_bus(self.finals, texts)
        return {"type": "bus", "missing": missing, "surplus": surplus, "heard": len(self.finals)}

    async def _undisturbed(self, names: Sequence[str], doors: Sequence[Door]) -> None:
        """Transcribe each recording once, with only one other session running."""
        left = list(names)
        # The first sessions are slower.
        await asyncio.gather(*(self._say(Session(door.urls, left[0])) for door in doors))

        async def lane(door: Door) -> None:
            while left:
                session = Session(door.urls, left.pop())
                await self._say(session)
                if session.error or session.broken:
                    raise RuntimeError(f"an undisturbed session failed: {session.error}")
                self.references[session.audio] = Reference(
                    session.text, tuple(session.heard), tuple(session.events)
                )
                self.record({"type": "reference", "audio": session.audio, "text": session.text})

        await asyncio.gather(*map(lane, doors))

    async def _say(self, session: Session, share: float = 0.0) -> None:
        self._live.append(session)
        try:
            await session.run(share)
        finally:
            self._live.remove(session)
            self.finals += [e["text"] for e in session.events if e["type"] == "final"]

    # ── faults ──────────────────────────────────────────────────────────────

    async def _lanes(
        self, todo: list[Fault], group: asyncio.TaskGroup, doors: Sequence[Door]
    ) -> None:
        """Inject these faults; processes that they ended may still be restarting afterwards."""
        await asyncio.wait([group.create_task(self._lane(todo, group, door)) for door in doors])

    async def _lane(self, todo: list[Fault], group: asyncio.TaskGroup, door: Door) -> None:
        while (fault := await self._next(todo)) is not None:
            injection = Injection(self.graph, fault, door)
            self.record(await self._trial(fault, injection))
            group.create_task(self._free(fault, injection))

    async def _next(self, todo: list[Fault]) -> Fault | None:
        """Take the first fault whose target is ready; None if there is none left.

        The order may therefore differ from the plan's where a restart takes long. A fault's kind,
        target and recording, and its moment in the recording, do not.
        """
        async with self._freed:
            while todo:
                for fault in todo:
                    if fault.of.target not in self._busy:
                        todo.remove(fault)
                        if fault.of.shared:
                            self._busy.add(fault.of.target)
                        return fault
                await self._freed.wait()
        return None

    async def _free(self, fault: Fault, injection: Injection) -> None:
        await injection.end()
        async with self._freed:
            self._busy.discard(fault.of.target)
            self._freed.notify_all()

    async def _trial(self, fault: Fault, injection: Injection) -> Row:
        session = Session(injection.door.urls, fault.audio)
        await injection.prepare()
        began = time.monotonic()
        share = 0.0 if injection.at_the_start else fault.share
        saying = asyncio.create_task(self._say(session, share))
        why = "the session had failed before"
        try:
            if await session.reached():
                why = await self._inject(fault, injection, session)
        finally:
            await saying
        row = self._row(fault, session)
        row |= {"injected": not why, "detail": injection.detail, "why_not": why}
        return row | {"seconds": round(time.monotonic() - began, 1)}

    async def _inject(self, fault: Fault, injection: Injection, session: Session) -> str:
        """Inject the fault, and note it in every live session that it may disturb; return the
        reason if that was impossible."""
        disturbed = self._live if fault.of.shared else [session]
        hit = [(live, (fault.kind, live.now)) for live in disturbed if fault.kind != CONTROL.name]
        for live, what in hit:
            live.hits.append(what)
        try:
            await injection.begin()
        except NotDone as error:
            for live, what in hit:
                live.hits.remove(what)
            return str(error)
        return ""

    def _row(self, fault: Fault, session: Session) -> Row:
        reference = self.references[fault.audio]
        words = compared(reference.text, session.text)
        lost, doubled = events_compared(reference.events, session.events)
        return {
            "type": "fault",
            "number": fault.number,
            "kind": fault.kind,
            "target": fault.of.target,
            "audio": fault.audio,
            "share": fault.share,
            "lasts": fault.seconds,
            "lost": words.lost,
            "doubled": words.doubled,
            "changed": words.changed,
            "identical": words.identical and not session.error,
            "error": session.error,
            "broken": session.broken,
            "text": session.text,
            "resumes": len(session.losses),
            "events_lost": lost,
            "events_doubled": doubled,
            "hits": list(_hits(reference, session)),
        }


def _hits(reference: Reference, session: Session) -> Iterator[Row]:
    hits = sorted(session.hits, key=lambda hit: hit[1])
    for number, (kind, at) in enumerate(hits, start=1):
        until = hits[number][1] if number < len(hits) else math.inf
        seconds = recovery_seconds(reference.heard, session.heard, at, until)
        if seconds is not None:
            seconds = round(seconds, 3) if math.isfinite(seconds) else _NEVER
        yield {"kind": kind, "at": round(at, 3), "recovery": seconds}
