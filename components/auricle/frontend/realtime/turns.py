"""The turns of a realtime session: each is one processor session, run one after the other.

While nobody speaks, a connection holds no resources on any processor, and a failed turn does
not affect the others. A turn starts when the previous one is transcribed, whose text is its
context. Until then its audio waits in its link.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from auricle.audio.constants import SAMPLE_RATE
from auricle.errors import AuricleError, from_code
from auricle.frontend.line.link import ProcessorLink
from auricle.frontend.line.token_scores import joined
from auricle.frontend.listening.pieces import Piece
from auricle.frontend.realtime import events
from auricle.frontend.realtime.events import ServerEvent
from auricle.messages.sessions import Failed, Final, Partial
from auricle.tasks import first_failure_or, unless

log = logging.getLogger(__name__)
Emit = Callable[[ServerEvent], Awaitable[None]]
# Returns the link to a processor, for speech from this session sample.
OpenLink = Callable[[int], ProcessorLink]
_WAITING_TURNS = 8


@dataclass
class Turn:
    """One turn and its audio; without speech its text is empty. `scored`: with log probabilities.

    `start` and `end` are session samples (16 kHz). Call its methods on one event loop.
    """

    open_link: OpenLink
    scored: bool = False
    item: str = field(default_factory=lambda: f"item_{uuid.uuid4().hex[:20]}")
    link: ProcessorLink | None = None
    start: int = 0
    end: int = 0
    over: bool = False  # the turn failed, so further audio is ignored
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    dropped: asyncio.Event = field(default_factory=asyncio.Event)

    async def add(self, piece: Piece) -> None:
        """Add speech; waits under backpressure. See `ProcessorLink.add` for errors."""
        if self.over:
            return
        if self.link is None:
            self.start = piece.start
            self.link = self.open_link(piece.start)
        self.end = piece.end
        self.begun.set()
        await self.link.add(piece)

    def finish(self) -> None:
        """End the turn's audio."""
        if self.link is not None:
            self.link.finish(self.end)
        self.begun.set()

    def drop(self) -> None:
        """Discard the turn; it gives no text."""
        self.dropped.set()
        self.begun.set()


class TurnRunner:
    """Runs turns in order and emits their text. Call its methods on one event loop."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._turns: asyncio.Queue[Turn] = asyncio.Queue(_WAITING_TURNS)
        self._previous = "", ""  # text and language

    async def put(self, turn: Turn) -> None:
        """Queue a turn that has begun; waits while eight turns are queued."""
        await self._turns.put(turn)

    async def finished(self) -> None:
        """Wait until all turns that were queued are transcribed, discarded or failed."""
        await self._turns.join()

    async def run(self) -> None:
        """Run turns until cancelled by the owner of this task."""
        while True:
            turn = await self._turns.get()
            await turn.begun.wait()
            await unless(turn.dropped, self._serve(turn))
            self._turns.task_done()

    async def _serve(self, turn: Turn) -> None:
        if turn.link is None:
            await self._emit(events.completed(turn.item, "", 0.0, () if turn.scored else None))
            return
        turn.link.after(*self._previous)
        text = asyncio.create_task(self._text(turn, turn.link))
        try:
            await first_failure_or(text, [asyncio.create_task(turn.link.pump())])
        except AuricleError as error:
            log.warning("turn %s failed: %s", turn.item, error)
            turn.over = True
            await self._emit(events.failed(turn.item, error))

    async def _text(self, turn: Turn, link: ProcessorLink) -> None:
        """Emit the turn's events. Deltas only append to the text already sent."""
        said, sent = "", 0  # the open segment's text with its separator, and how much was emitted
        whole: list[str] = []
        finals: list[Final] = []
        async with aclosing(link.events()) as received:
            async for event in received:
                if isinstance(event, Failed):
                    raise from_code(event.code, event.message)
                if isinstance(event, Partial | Final):
                    settled = event.committed if isinstance(event, Partial) else event.text
                    said = _following(settled, first=not whole)
                    if len(said) > sent:
                        await self._emit(events.delta(turn.item, said[sent:]))
                        sent = len(said)
                if isinstance(event, Partial):
                    await self._emit(events.partial(turn.item, event.partial))
                elif isinstance(event, Final) and event.text:
                    whole.append(said)
                    finals.append(event)
                    said, sent = "", 0
                    self._previous = event.text, event.language
                    await self._emit(
                        events.segment(
                            turn.item, event.segment, event.text, event.start_ms, event.end_ms
                        )
                    )
        seconds = (turn.end - turn.start) / SAMPLE_RATE
        scores = joined((final.text, final.tokens) for final in finals) if turn.scored else None
        await self._emit(events.completed(turn.item, "".join(whole) + said, seconds, scores))


def _following(text: str, *, first: bool) -> str:
    """Return a segment's text as it follows the segments before, with a space between."""
    text = text.lstrip()
    return f" {text}" if text and not first else text
