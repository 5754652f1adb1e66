"""One speaker's audio, from bytes to text, for protocols that need no more than that.

A telephone call has one for each side; they know nothing of each other.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from auricle.audio.constants import SAMPLE_RATE
from auricle.errors import from_code
from auricle.frontend.doors.live import LiveSession
from auricle.frontend.doors.sockets import ClientSocket
from auricle.frontend.frontend import Frontend
from auricle.frontend.line.lead import Lead
from auricle.frontend.listening.endpointing import EndpointingOptions, GateEvent, Piece
from auricle.frontend.listening.ingest import Ingest
from auricle.messages import Failed, Final, OpenSession, Partial
from auricle.tasks import LoopTurn


class Channel:
    """The audio of one session. One task feeds it, one iterates over `texts`, and one runs `pump`;
    all on the event loop."""

    def __init__(
        self,
        frontend: Frontend,
        session: LiveSession | ClientSocket,
        sample_rate: int,
        encoding: str,
        *,
        language: str | None = None,
        context: str = "",
        partials: bool = True,
        call: str | None = None,
        part: str = "",
        lead: Lead | None = None,
    ) -> None:
        """`sample_rate` is in Hz, `encoding` one of `audio.pcm.ENCODINGS`.

        On the transcript bus it is `part` of the session `call`, by default of its own; the parts
        of one call share its `lead`.
        """
        self._frontend = frontend
        self._session = session
        opened = OpenSession(
            session=session.session,
            tenant=session.client.tenant,
            language=language,
            context=context,
            chunk_ms=frontend.chunk_ms(None),
            partials=partials,
            trace=session.trace,
            admission=session.session,
        )
        self._link = frontend.link(
            opened, session=call, part=part, lead=frontend.lead() if lead is None else lead
        )
        endpointing = EndpointingOptions.over(
            frontend.settings, threshold=None, min_silence_ms=None, pre_roll_ms=None
        )
        self._ingest = Ingest(sample_rate, encoding, frontend.detector, endpointing)
        self._counted = 0  # session samples that were counted as heard
        self._turn = LoopTurn()

    async def take(self, data: bytes) -> None:
        """Process what the client sent, slice by slice; others run in between.

        Waits while the processor is full, or the client exceeds its audio rate.
        """
        self._ingest.expect(self._link.missing)
        self._ingest.take(data)
        while self._ingest.ready:
            events = await self._frontend.listened(self._ingest, self._session.trace)
            await self._hand_over(events)
            await self._turn.give_way()
        await self._turn.give_way()

    async def end(self) -> None:
        """The audio has ended. Raises ProtocolError within a sample."""
        await self._hand_over(await self._ingest.end())
        self._link.finish(self._ingest.total_samples)

    @property
    def resting(self) -> bool:
        """Whether nobody speaks, so that the session loses no word if it ends now."""
        return self._ingest.resting_at is not None

    @property
    def heard_samples(self) -> int:
        """The 16 kHz samples that were processed so far."""
        return self._ingest.total_samples

    async def pump(self) -> None:
        """Send audio to the processor; see `ProcessorLink.pump`."""
        await self._link.pump()

    async def texts(self) -> AsyncGenerator[Partial | Final, None]:
        """Yield the session's text until all audio has its own. Raises the error it fails with."""
        async with aclosing(self._link.events()) as events:
            async for event in events:
                if isinstance(event, Partial | Final):
                    yield event
                elif isinstance(event, Failed):
                    raise from_code(event.code, event.message)

    async def _hand_over(self, events: list[GateEvent]) -> None:
        for event in events:
            if isinstance(event, Piece):
                await self._link.add(event)
        seconds = (self._ingest.total_samples - self._counted) / SAMPLE_RATE
        self._counted = self._ingest.total_samples
        if seconds:
            self._frontend.metrics.audio(received=seconds)
            await self._session.heard(seconds)
