"""Has segments diarized, so that the diarize pool is measured."""

from __future__ import annotations

import itertools

import numpy as np

from auricle.audio.constants import SAMPLE_RATE
from auricle.load.reports import PoolKind
from auricle.messages.diarizing import DiarizeReply, DiarizeRequest
from auricle.processor.pools import Pool
from auricle.profiling.beside import SEGMENT_SECONDS, Told
from auricle.profiling.cast import Stage
from auricle.profiling.speakers import random_part
from auricle.runtime import Runtime


class DiarizeAsking:
    """Asks for the speakers of segments; see `beside.Asking`."""

    kinds: tuple[PoolKind, ...] = ("diarize_worker",)

    def __init__(self, runtime: Runtime, stage: Stage) -> None:
        settings = stage.settings
        self._stage = stage
        self._chance = np.random.default_rng(0)
        self._names = itertools.count()
        self._patience = settings.speakers_deadline_seconds
        client = runtime.client("diarize_worker", "generate")
        self._pool = Pool(client, self._patience, settings.attempts)

    async def ready(self, seconds: float) -> None:
        """Wait until the pool can be called."""
        await self._pool.ready(seconds)

    async def ask(self, _kind: PoolKind | None, told: Told) -> None:
        """Have the segments of a session diarized, each with the voices known before it."""
        name, state = f"profile-{next(self._names)}", b""
        samples = int(SEGMENT_SECONDS * SAMPLE_RATE)
        while True:
            pcm = random_part(self._stage.recordings, samples, self._chance)
            most = self._stage.settings.max_speakers
            request = DiarizeRequest(name, name, pcm.tobytes(), state, most)
            reply = await self._pool.ask(request, DiarizeReply, self._patience, "diarizing")
            state = reply.state
            told(SEGMENT_SECONDS)
