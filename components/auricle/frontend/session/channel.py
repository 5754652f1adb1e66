"""One speaker's audio, from bytes to text.

A telephone call has one for each side; they know nothing of each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import Any

from auricle.core.aio import first_failure_or
from auricle.core.errors import (
    AuricleError,
    BadRequest,
    DeadlineExceeded,
    WorkerUnavailable,
    from_code,
)
from auricle.frontend.audio.chunks import AudioChunk, GateEvent
from auricle.frontend.audio.endpointing import EndpointingOptions
from auricle.frontend.audio.ingest import Ingest
from auricle.frontend.audio.resume_state import BEGIN, ListeningPoint
from auricle.frontend.audio.turn_detection import Silence, TurnWait
from auricle.frontend.frontend import Frontend
from auricle.frontend.link.words import HeldWords
from auricle.frontend.session.adapter import ChannelOptions
from auricle.frontend.session.intake import AudioIntake
from auricle.frontend.transport.live_sessions import LiveSession
from auricle.protocol.annotation import SegmentTranslation
from auricle.protocol.sessions import (
    Failed,
    OpenSession,
    SegmentFinal,
    SegmentPartial,
    SegmentWords,
)

# A caller who has hung up waits for nothing, so something else must end the wait for the text.
_LAST_TEXT_SECONDS = 120.0
Told = Callable[[int, SegmentPartial | SegmentFinal], Awaitable[None]]
Translated = Callable[[SegmentTranslation], Awaitable[None]]
# Gets what endpointing found, and the session sample up to which it has listened.
Found = Callable[[Sequence[GateEvent], int], Awaitable[None]]


class Channel(AudioIntake[Ingest]):
    """The audio of one session. One task feeds it, one iterates over `texts`, and one runs `pump`;
    all on the event loop."""

    def __init__(
        self,
        frontend: Frontend,
        speaker: LiveSession,
        options: ChannelOptions,
        *,
        found: Found | None = None,
        translated: Translated | None = None,
    ) -> None:
        """`found` gets what endpointing finds, before the processor gets the speech: its text may
        come at once. `translated` gets the translations."""
        self._options = options
        self._found = found
        self._translated = translated
        name = options.name or speaker.session
        aligned = options.words == "aligned"
        self._held = HeldWords() if aligned else None
        opened = OpenSession(
            session=name,
            tenant=speaker.client.tenant,
            language=options.language,
            languages=options.languages,
            context=options.context,
            chunk_ms=frontend.chunk_ms(None),
            partials=options.partials,
            trace=speaker.trace,
            admission=name,
            words=aligned,
            grid_words=options.words is not None,
            translate=() if options.translate is None else (options.translate,),
        )
        link = frontend.link(opened, session=options.call, part=options.part, lead=frontend.lead())
        self._link = link
        ingest = self._listening(frontend, BEGIN, options.silence)
        super().__init__(
            *(frontend, speaker, ingest, self._hand_over), missing=lambda: link.missing
        )

    def _listening(
        self, frontend: Frontend, start: ListeningPoint, silence: Silence | None
    ) -> Ingest:
        turns = silence if isinstance(silence, TurnWait) else None
        silence_ms = None if isinstance(silence, TurnWait) else silence
        # Silence is dropped whatever the settings: the model would hallucinate words there.
        endpointing = EndpointingOptions.over(
            frontend.settings, min_silence_ms=silence_ms, turns=turns
        )
        return Ingest(
            *(self._options.sample_rate, self._options.encoding, frontend.detector, endpointing),
            start=start,
            judge=frontend.judge,
        )

    async def end_speech(self) -> None:
        """End the speech so far. Raises ProtocolError within a sample."""
        async with self.holding:
            await self.flush()

    async def listen_anew(self, silence: Silence | None) -> int:
        """End the speech so far, return where that was, and listen to what follows."""
        await self.end_speech()
        at = self.heard_samples
        self.follow_with(self._listening(self._frontend, ListeningPoint(at, at, at), silence))
        return at

    def finish(self) -> None:
        """The audio has ended, and so has its speech."""
        self.holding.close()
        self._link.finish(self.heard_samples)

    async def end(self) -> None:
        """The audio has ended. Raises ProtocolError within a sample."""
        await self.end_speech()
        self.finish()

    async def leave(self) -> int:
        """End the session early; return the session sample at which another can continue."""
        at = self.resting_at
        if at is None:
            await self.end_speech()
            at = self.heard_samples
        self.finish()
        return at

    async def pump(self) -> None:
        """Send audio to the processor, held audio too; see `ProcessorLink.pump`."""
        pumping = asyncio.create_task(self._link.pump())
        await first_failure_or(pumping, [asyncio.create_task(self.holding.run())])

    async def run(
        self, reading: Coroutine[Any, Any, None], writing: Coroutine[Any, Any, None]
    ) -> None:
        """Run `reading`, which feeds the channel, until `writing` has sent its last text."""
        writer = asyncio.create_task(writing)
        others = [asyncio.create_task(part) for part in (reading, self.pump())]
        await first_failure_or(writer, others)

    async def texts(self) -> AsyncGenerator[SegmentPartial | SegmentFinal, None]:
        """Yield the session's text until all audio has its own. Raises the error it fails with."""
        held = self._held
        failure: AuricleError | None = None
        try:
            async with aclosing(self._link.events()) as events:
                async for event in events:
                    if (
                        isinstance(event, SegmentPartial | SegmentFinal | SegmentWords)
                        and held is not None
                    ):
                        for told in held.heard(event):
                            yield told
                    elif isinstance(event, SegmentPartial | SegmentFinal):
                        yield event
                    elif isinstance(event, SegmentTranslation) and self._translated is not None:
                        await self._translated(event)
                    elif isinstance(event, Failed):
                        raise from_code(event.code, event.message)
        except AuricleError as error:
            failure = error
        for told in () if held is None else held.rest():  # what is known is told in any case
            yield told
        if failure is not None:
            raise failure

    async def _hand_over(self, events: list[GateEvent]) -> None:
        """Tell what was found, and send speech to the processor."""
        if self._found is not None:
            await self._found(events, self.heard_samples)
        for event in events:
            if isinstance(event, AudioChunk):
                await self._link.add(event)


async def follow(
    channels: Sequence[Channel], reading: Coroutine[Any, Any, None], told: Told | None = None
) -> None:
    """Run `reading`, which feeds the channels until the call is over; return with their last text.

    `told(number, event)` gets each channel's text. A caller from whom nothing came for too long has
    said what was heard before: the DeadlineExceeded of `reading` is raised after the text.
    """
    late: list[DeadlineExceeded] = []

    async def feed() -> None:
        try:
            await reading
        except DeadlineExceeded as error:
            late.append(error)
        for channel in channels:
            await channel.end()
        await asyncio.sleep(_LAST_TEXT_SECONDS)
        raise WorkerUnavailable(f"a call's last text took longer than {_LAST_TEXT_SECONDS:g} s")

    async def listen(number: int, channel: Channel) -> None:
        async with aclosing(channel.texts()) as texts:
            async for event in texts:
                if told is not None:
                    await told(number, event)

    listening = [asyncio.create_task(listen(n, channel)) for n, channel in enumerate(channels)]
    pumping = [asyncio.create_task(channel.pump()) for channel in channels]
    whole = asyncio.create_task(asyncio.wait(listening))
    await first_failure_or(whole, [*listening, *pumping, asyncio.create_task(feed())])
    if late:
        raise late[0]


def check_text_is_wanted(frontend: Frontend) -> None:
    """Raise BadRequest if nobody would get the text of a call, as its protocol has no way back."""
    if frontend.bus.state() is None and not frontend.settings.log_transcripts:
        raise BadRequest(
            "the text of calls goes to the transcript bus, which this server does not have: "
            "set Frontend.nats_server"
        )
