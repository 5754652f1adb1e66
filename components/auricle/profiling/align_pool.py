"""Has segments aligned, so that both halves of the align pool are measured."""

from __future__ import annotations

import itertools
from typing import Final

import numpy as np

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import milliseconds
from auricle.checkpoint.files import Checkpoint
from auricle.load.reports import PoolKind
from auricle.processor.aligner import Spoken, WordAligner
from auricle.processor.pools import EncodePool, Pool
from auricle.processor.windows import KeyScheme, SegmentAudio
from auricle.profiling.beside import SEGMENT_SECONDS, Told
from auricle.profiling.cast import Stage
from auricle.profiling.speakers import random_part
from auricle.runtime import Runtime

_WORDS_PER_SECOND = 2.5
HALVES: Final[tuple[PoolKind, ...]] = ("align_encode_worker", "align_worker")


class AlignAsking:
    """Asks for the words of segments; see `beside.Asking`.

    An aligner that is the model has no encode workers of its own.
    """

    def __init__(self, runtime: Runtime, stage: Stage, aligner: Checkpoint) -> None:
        settings, own = stage.settings, aligner.fingerprint == stage.checkpoint.fingerprint
        self.kinds: tuple[PoolKind, ...] = HALVES[1:] if own else HALVES
        self._stage = stage
        self._chance = np.random.default_rng(0)
        self._names = itertools.count()
        encoders: PoolKind = "encode_worker" if own else HALVES[0]
        clients = [runtime.client(kind, "generate") for kind in (encoders, HALVES[1])]
        self._patience = settings.words_deadline_seconds
        self._pools = (
            EncodePool(clients[0], self._patience, 1),
            Pool(clients[1], self._patience, settings.attempts),
        )
        self._aligner = WordAligner(aligner, settings.dtype, *self._pools)

    async def ready(self, seconds: float) -> None:
        """Wait until both halves can be called."""
        for pool in self._pools:
            await pool.ready(seconds)

    async def ask(self, kind: PoolKind | None, told: Told) -> None:
        """Have segments aligned, or only encoded. The align worker by itself gets the same one
        again and again, which is encoded once."""
        spoken = self._segment()
        while True:
            if kind == "align_encode_worker":
                await self._aligner.encoded(spoken)
            else:
                await self._aligner.times(spoken, self._patience)
            told(SEGMENT_SECONDS)
            if kind != "align_worker":
                spoken = self._segment()

    def _segment(self) -> Spoken:
        """Return a part of a recording that nobody has encoded yet."""
        stage, name = self._stage, f"profile-{next(self._names)}"
        samples = int(SEGMENT_SECONDS * SAMPLE_RATE)
        keys = KeyScheme(stage.checkpoint.fingerprint, stage.settings.dtype, name)
        audio = SegmentAudio(stage.checkpoint.geometry, keys)
        audio.push(random_part(stage.recordings, samples, self._chance))
        words = ("profile",) * round(SEGMENT_SECONDS * _WORDS_PER_SECOND)
        return Spoken(
            *(name, name, audio, samples, milliseconds(samples), words),
            background=False,
            trace="",
            texts=tuple(f"{word} " for word in words),
            language="English",
        )
