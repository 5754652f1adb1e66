"""A client's audio, from its bytes to what endpointing finds in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from auricle.audio.constants import SAMPLE_RATE
from auricle.core.aio import LoopTurn
from auricle.frontend.audio.chunks import GateEvent
from auricle.frontend.audio.holding import Holding
from auricle.frontend.audio.ingest import FeatureIngest, Ingest
from auricle.frontend.frontend import Frontend
from auricle.frontend.transport.live_sessions import LiveSession

AnyIngest = TypeVar("AnyIngest", bound=Ingest | FeatureIngest)


class AudioIntake(Generic[AnyIngest]):
    """The audio of one live session: held back, processed in slices, delivered and charged.

    One task feeds it and another runs `holding.run`, on one event loop. All work on the audio
    but `take` must be done within `async with holding`.
    """

    def __init__(
        self,
        frontend: Frontend,
        speaker: LiveSession,
        ingest: AnyIngest,
        deliver: Callable[[list[GateEvent]], Awaitable[None]],
        *,
        missing: Callable[[], int | None] | None = None,
        count: Callable[[], Awaitable[int]] | None = None,
    ) -> None:
        """`deliver` gets what endpointing finds.

        With `missing`, which returns how much speech the processor waits for, audio is held back
        until something can be decided. `count` returns how many samples are new since the last
        call; without it all of them are.
        """
        self._frontend = frontend
        self._speaker = speaker
        self.ingest = ingest
        self._deliver = deliver
        self._missing = missing
        self._count = count or self._new_samples
        self._counted = ingest.heard_samples
        self.holding = Holding(lambda: self.ingest.holds, self._pass_on)
        self._turn = LoopTurn()

    def expect(self) -> int:
        """Hold audio back until something can be decided; see `Ingest.expect`."""
        return 0 if self._missing is None else self.ingest.expect(self._missing())

    async def take(self, data: bytes) -> None:
        """Process what the client sent, slice by slice; others run in between.

        Waits while the processor is full, or the client exceeds its audio rate.
        """
        async with self.holding:
            self.expect()
            self.ingest.take(data)
            while self.ingest.ready:
                await self._process()
        await self._turn.give_way()

    async def _process(self) -> None:
        await self._deliver(await self._frontend.listened(self.ingest, self._speaker.trace))
        await self.charge()
        await self._turn.give_way()

    async def _pass_on(self) -> None:
        while self.ingest.holds:
            await self._process()

    async def flush(self) -> None:
        """End the speech so far. Raises ProtocolError within a sample."""
        await self._deliver(await self.ingest.end())
        await self.charge()

    def follow_with(self, ingest: AnyIngest) -> None:
        """Let another ingest process what comes next."""
        self.ingest = ingest
        self._counted = ingest.heard_samples

    async def charge(self) -> None:
        """Count the audio processed so far; waits if the client exceeds its audio rate."""
        if new := await self._count():
            self._frontend.metrics.audio(received=new / SAMPLE_RATE)
            await self._speaker.heard(new / SAMPLE_RATE)

    async def _new_samples(self) -> int:
        new = self.ingest.heard_samples - self._counted
        self._counted += new
        return new

    @property
    def heard_samples(self) -> int:
        """The 16 kHz samples that were processed so far."""
        return self.ingest.total_samples

    @property
    def resting_at(self) -> int | None:
        """The session sample from which another session can continue; None within a turn, and
        while it is being found out."""
        return None if self.holding.busy else self.ingest.resting_at

    @property
    def resting(self) -> bool:
        """Whether nobody speaks, so that no word is cut if the session ends now."""
        return self.resting_at is not None
