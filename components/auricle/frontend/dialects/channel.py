"""One channel of a session: its audio to a processor, and what becomes of it to the client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Protocol

from auricle.frontend.channel import Channel
from auricle.frontend.dialects.messages import Reply
from auricle.frontend.dialects.options import AudioOptions
from auricle.frontend.doors.sockets import ClientSocket
from auricle.frontend.frontend import Frontend
from auricle.frontend.listening.pieces import GateEvent
from auricle.frontend.listening.turn_wait import Silence
from auricle.messages.sessions import Final, Partial


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


class SpokenChannel:
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
        self._tracer = frontend.tracer
        self._trace = socket.trace
        self._silence = options.silence
        self._other_silence: Silence | None = None  # once nobody speaks on
        self._talk = talk
        self._tell = tell
        self._audio = Channel(
            frontend,
            socket,
            options.sample_rate,
            options.encoding,
            language=options.language,
            languages=options.languages,
            context=options.context,
            silence=options.silence,
            partials=options.partials,
            words=options.words,
            name=socket.sessions[number],
            call=socket.session,
            part=str(number) if options.channels > 1 else "",
            found=self._found,
        )

    # ── audio ───────────────────────────────────────────────────────────────

    def expect(self) -> int:
        """Hold audio back until something can be decided; see `Ingest.expect`."""
        return self._audio.expect()

    async def take(self, data: bytes) -> None:
        """Process whole samples slice by slice, however many; others run in between."""
        if self._other_silence is not None and self._audio.resting:
            self._silence, self._other_silence = self._other_silence, None
            await self._audio.listen_anew(self._silence)
        await self._audio.take(data)

    def end_speech_after(self, silence: Silence) -> None:
        """Let speech end after such a silence, from when nobody speaks on."""
        self._other_silence = silence

    async def finalize(self) -> None:
        """End the speech so far, and listen anew to what follows."""
        at = await self._audio.listen_anew(self._silence)
        await self._tell(lambda: self._talk.finalized(at))

    async def end(self) -> None:
        """End the speech so far."""
        await self._audio.end_speech()

    def finish(self) -> None:
        """The audio has ended, and so has its speech."""
        self._audio.finish()

    @property
    def heard_samples(self) -> int:
        """The 16 kHz samples that were processed so far."""
        return self._audio.heard_samples

    @property
    def resting_at(self) -> int | None:
        """The session sample from which another session can continue; None within speech."""
        return self._audio.resting_at

    async def _found(self, events: Sequence[GateEvent], until: int) -> None:
        await self._tell(lambda: self._talk.heard(events, until))

    # ── text ────────────────────────────────────────────────────────────────

    async def pump(self) -> None:
        """Send audio to the processor; see `ProcessorLink.pump`."""
        await self._audio.pump()

    async def write(self) -> None:
        """Tell the client of the processor's text, until there is no more.

        Raises the error that the session fails with.
        """
        async with aclosing(self._audio.texts()) as texts:
            async for event in texts:
                if isinstance(event, Partial):
                    with self._tracer.span("send", self._trace):
                        await self._tell(partial(self._talk.partial, event))
                else:
                    await self._tell(partial(self._talk.final, event))
