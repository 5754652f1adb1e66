"""One channel of a session: its audio to a processor, and what becomes of it to the client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Protocol

from auricle.audio.constants import SAMPLE_RATE
from auricle.errors import from_code
from auricle.frontend.deepgram.messages import Reply
from auricle.frontend.deepgram.options import AudioOptions
from auricle.frontend.doors.sockets import ClientSocket
from auricle.frontend.frontend import Frontend
from auricle.frontend.listening.endpointing import EndpointingOptions, GateEvent, Piece
from auricle.frontend.listening.ingest import Ingest
from auricle.frontend.listening.point import BEGIN, ListeningPoint
from auricle.messages import Failed, Final, OpenSession, Partial
from auricle.tasks import LoopTurn


class Talk(Protocol):
    """What a client is told of one channel's speech, and when. Calls must not overlap.

    Positions are session samples (16 kHz).
    """

    def heard(self, events: Sequence[GateEvent], until: int) -> list[Reply]:
        """Endpointing has found `events`; it has listened up to sample `until`.

        Call this before the processor gets the pieces: their text may come at once.
        """
        ...

    def finalized(self, at: int) -> list[Reply]:
        """The client wants the text of all audio up to `at`, where its speech was ended."""
        ...

    def partial(self, event: Partial) -> list[Reply]:
        """The open segment has text that may change."""
        ...

    def final(self, event: Final) -> list[Reply]:
        """A segment has its final text."""
        ...


# Sends the messages that a function makes; those of all channels leave in one order.
Tell = Callable[[Callable[[], list[Reply]]], Awaitable[None]]


class Channel:
    """The session of one channel. A reader feeds it; `pump` and `write` run beside it."""

    def __init__(
        self,
        frontend: Frontend,
        socket: ClientSocket,
        options: AudioOptions,
        number: int,
        talk: Talk,
        tell: Tell,
    ) -> None:
        """`number` counts from 0, among the `options.channels` of the connection."""
        self._frontend = frontend
        self._socket = socket
        self._options = options
        self._silence_ms = options.silence_ms
        self._other_silence_ms: int | None = None  # from the next silence on
        self._talk = talk
        self._tell = tell
        name = socket.sessions[number]
        self._link = frontend.link(
            OpenSession(
                session=name,
                tenant=socket.client.tenant,
                language=options.language,
                context=options.context,
                chunk_ms=frontend.chunk_ms(None),
                partials=options.partials,
                trace=socket.trace,
                admission=name,
            ),
            session=socket.session,
            part=str(number) if options.channels > 1 else "",
            lead=frontend.lead(),
        )
        self._ingest = self._listening(BEGIN)
        self._counted = 0  # session samples that were counted as heard
        self._turn = LoopTurn()

    def _listening(self, start: ListeningPoint) -> Ingest:
        options, frontend = self._options, self._frontend
        # Silence is always dropped: the model would hallucinate words there.
        endpointing = EndpointingOptions.over(
            frontend.settings, threshold=None, min_silence_ms=self._silence_ms, pre_roll_ms=None
        )
        return Ingest(
            options.sample_rate, options.encoding, frontend.detector, endpointing, start=start
        )

    # ── audio ───────────────────────────────────────────────────────────────

    def expect(self) -> int:
        """Hold audio back until something can be decided; see `Ingest.expect`."""
        return self._ingest.expect(self._link.missing)

    async def take(self, data: bytes) -> None:
        """Process whole samples slice by slice, however many; others run in between."""
        if self._other_silence_ms is not None and self.resting_at is not None:
            self._silence_ms, self._other_silence_ms = self._other_silence_ms, None
            await self._listen_anew()
        self._ingest.take(data)
        while self._ingest.ready:
            await self._hand_over(await self._frontend.listened(self._ingest, self._socket.trace))
            await self._turn.give_way()

    def end_speech_after(self, silence_ms: int) -> None:
        """Let speech end after such a silence, from when nobody speaks on."""
        self._other_silence_ms = silence_ms

    async def finalize(self) -> None:
        """End the speech so far, and listen anew to what follows."""
        at = await self._listen_anew()
        await self._tell(lambda: self._talk.finalized(at))

    async def end(self) -> None:
        """End the speech so far."""
        await self._hand_over(await self._ingest.end())

    def finish(self) -> None:
        """The audio has ended, and so has its speech."""
        self._link.finish(self._ingest.total_samples)

    @property
    def heard_samples(self) -> int:
        """The 16 kHz samples that were processed so far."""
        return self._ingest.total_samples

    @property
    def resting_at(self) -> int | None:
        """The session sample from which another session can continue; None within speech."""
        return self._ingest.resting_at

    async def _listen_anew(self) -> int:
        await self.end()
        at = self._ingest.total_samples
        self._ingest = self._listening(ListeningPoint(at, at, at))
        return at

    async def _hand_over(self, events: list[GateEvent]) -> None:
        """Send speech to the processor, and what was found to the client; count the audio."""
        at = self._ingest.total_samples
        await self._tell(lambda: self._talk.heard(events, at))
        for event in events:
            if isinstance(event, Piece):
                await self._link.add(event)
        seconds = (at - self._counted) / SAMPLE_RATE
        self._counted = at
        if seconds:
            self._frontend.metrics.audio(received=seconds)
            await self._socket.heard(seconds)

    # ── text ────────────────────────────────────────────────────────────────

    async def pump(self) -> None:
        """Send audio to the processor; see `ProcessorLink.pump`."""
        await self._link.pump()

    async def write(self) -> None:
        """Tell the client of the processor's text, until there is no more.

        Raises the error that the session fails with.
        """
        async with aclosing(self._link.events()) as events:
            async for event in events:
                if isinstance(event, Partial):
                    with self._frontend.tracer.span("send", self._socket.trace):
                        await self._tell(partial(self._talk.partial, event))
                elif isinstance(event, Final):
                    await self._tell(partial(self._talk.final, event))
                elif isinstance(event, Failed):
                    raise from_code(event.code, event.message)
