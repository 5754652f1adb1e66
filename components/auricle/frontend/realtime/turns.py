"""Turns of a realtime session: each is a session of a processor, one after the other.

While nobody speaks a connection holds nothing on any processor, and a turn that fails
fails alone. The next turn starts when the one before has its text, which it is given
as context; its audio waits in its link meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from auricle.audio.mel import SAMPLE_RATE
from auricle.errors import AuricleError, from_code
from auricle.frontend.endpointing import Piece
from auricle.frontend.link import ProcessorLink
from auricle.frontend.realtime import events
from auricle.frontend.realtime.events import ServerEvent
from auricle.messages import Failed, Final, Partial
from auricle.tasks import first_failure_or, unless

log = logging.getLogger(__name__)
Emit = Callable[[ServerEvent], Awaitable[None]]
# Opens the line to a processor for speech from this session sample on.
OpenLink = Callable[[int], ProcessorLink]
_WAITING_TURNS = 8


@dataclass
class Turn:
    """One turn's audio as it is spoken. Without any speech its text is empty."""

    open_link: OpenLink
    item: str = field(default_factory=lambda: f"item_{uuid.uuid4().hex[:20]}")
    link: ProcessorLink | None = None
    start: int = 0
    end: int = 0
    over: bool = False  # nobody listens any more: it failed
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    dropped: asyncio.Event = field(default_factory=asyncio.Event)

    async def add(self, piece: Piece) -> None:
        """The next speech; waits while the processor is behind."""
        if self.over:
            return
        if self.link is None:
            self.start = piece.start
            self.link = self.open_link(piece.start)
        self.end = piece.end
        self.begun.set()
        await self.link.add(piece)

    def finish(self) -> None:
        """Nothing more belongs to it."""
        if self.link is not None:
            self.link.finish(self.end)
        self.begun.set()

    def drop(self) -> None:
        """Its audio is to be forgotten, and no text to be given."""
        self.dropped.set()
        self.begun.set()


class TurnRunner:
    """Runs turns in order and emits their text."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._turns: asyncio.Queue[Turn] = asyncio.Queue(_WAITING_TURNS)
        self._previous = ""

    async def put(self, turn: Turn) -> None:
        """A turn has begun; waits while too many wait."""
        await self._turns.put(turn)

    async def finished(self) -> None:
        """Until every turn that was put has its text."""
        await self._turns.join()

    async def run(self) -> None:
        """The loop; its owner cancels it."""
        while True:
            turn = await self._turns.get()
            await turn.begun.wait()
            await unless(turn.dropped, self._serve(turn))
            self._turns.task_done()

    async def _serve(self, turn: Turn) -> None:
        if turn.link is None:
            await self._emit(events.completed(turn.item, "", 0.0))
            return
        turn.link.after(self._previous)
        text = asyncio.create_task(self._text(turn, turn.link))
        try:
            await first_failure_or(text, [asyncio.create_task(turn.link.pump())])
        except AuricleError as error:
            log.warning("a turn failed: %s", error)
            turn.over = True
            await self._emit(events.failed(turn.item, error))

    async def _text(self, turn: Turn, link: ProcessorLink) -> None:
        """The turn's events: deltas only ever add to what was sent."""
        closed = sent = ""
        async with aclosing(link.events()) as received:
            async for event in received:
                if isinstance(event, Failed):
                    raise from_code(event.code, event.message)
                if isinstance(event, Partial | Final):
                    settled = event.committed if isinstance(event, Partial) else event.text
                    text = _joined(closed, settled)
                    if len(text) > len(sent):
                        await self._emit(events.delta(turn.item, text[len(sent) :]))
                        sent = text
                if isinstance(event, Partial):
                    await self._emit(events.partial(turn.item, event.partial))
                elif isinstance(event, Final) and event.text:
                    closed = sent
                    self._previous = event.text
                    await self._emit(
                        events.segment(
                            turn.item, event.segment, event.text, event.start_ms, event.end_ms
                        )
                    )
        seconds = (turn.end - turn.start) / SAMPLE_RATE
        await self._emit(events.completed(turn.item, sent, seconds))


def _joined(closed: str, text: str) -> str:
    return f"{closed} {text.lstrip()}" if closed and text else closed or text.lstrip()
