"""Measures the pools beside the path that a deployment has, one after the other."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from auricle.annotation.translation.text import last_cut
from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import Int16, milliseconds
from auricle.checkpoints.files import ModelCheckpoint, open_checkpoint
from auricle.checkpoints.languages import language_code
from auricle.checkpoints.text_model import open_text_model
from auricle.config.settings import ProcessorSettings
from auricle.core.errors import AuricleError
from auricle.dynamo import Runtime
from auricle.load.reports import PoolKind
from auricle.processor.annotators.sessions import translation_rule
from auricle.processor.annotators.translation_target import Source, TranslationTarget, request_for
from auricle.processor.annotators.words import FinalSegment, WordAligner
from auricle.processor.pools import EncodePool, Placement, Pool
from auricle.processor.session.windows import KeyScheme, SegmentAudio
from auricle.protocol.annotation import TranslateReply, Translating
from auricle.protocol.sessions import OpenSession
from auricle.tools.profiling.annotation_load import (
    SEGMENT_SECONDS,
    Asking,
    BesideRamp,
    DiarizeAsking,
    Told,
)
from auricle.tools.profiling.synthetic_speakers import CHUNK_MS, Cast, Said, Stage, random_part

# Has segments aligned, so that both halves of the align pool are measured.

_WORDS_PER_SECOND = 2.5
HALVES: Final[tuple[PoolKind, ...]] = ("align_encode_worker", "align_worker")


class AlignAsking:
    """Asks for the words of segments; see `beside.Asking`.

    An aligner that is the model has no encode workers of its own.
    """

    def __init__(self, runtime: Runtime, stage: Stage, aligner: ModelCheckpoint) -> None:
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

    def _segment(self) -> FinalSegment:
        """Return a part of a recording that nobody has encoded yet."""
        stage, name = self._stage, f"profile-{next(self._names)}"
        samples = int(SEGMENT_SECONDS * SAMPLE_RATE)
        keys = KeyScheme(stage.checkpoint.fingerprint, stage.settings.dtype, name)
        audio = SegmentAudio(stage.checkpoint.geometry, keys)
        audio.push(random_part(stage.recordings, samples, self._chance))
        words = ("profile",) * round(SEGMENT_SECONDS * _WORDS_PER_SECOND)
        return FinalSegment(
            *(name, name, audio, samples, milliseconds(samples), words),
            background=False,
            trace="",
            texts=tuple(f"{word} " for word in words),
            language="English",
        )


# Has what is said in the recordings translated, so that the translate pool is measured.
#
# As in a session, a segment's text is translated again whenever more of it is committed.

_ANY = ("es", "en")  # for a model that names no languages: the first that nobody speaks


class TranslateAsking:
    """Asks for translations of what was said; see `beside.Asking`."""

    kinds: tuple[PoolKind, ...] = ("translate_worker",)

    def __init__(
        self,
        runtime: Runtime,
        settings: ProcessorSettings,
        said: Sequence[Said],
        targets: Sequence[str],
    ) -> None:
        """`targets` are the languages into which the pool translates; empty for any.

        Raises AuricleError if nothing was said, or only in the one language that there is.
        """
        spoken = [one for one in said if one.text]
        if not spoken:
            raise AuricleError(
                "nothing was recognised in the recordings, so there is nothing to translate: name "
                "typical speech with --audio"
            )
        self._target = _target(spoken[0].language, targets)
        # What is in that language already would be answered without the pool.
        self._said = [one for one in spoken if language_code(one.language) != self._target]
        self._rule = translation_rule(settings)
        self._chance = np.random.default_rng(0)
        self._names = itertools.count()
        self._patience = settings.translation_deadline_seconds
        client = runtime.client("translate_worker", "generate")
        self._pool = Pool(client, self._patience, settings.attempts, leaves_at_once=True)

    async def ready(self, seconds: float) -> None:
        """Wait until the pool can be called."""
        await self._pool.ready(seconds)

    async def ask(self, _kind: PoolKind | None, told: Told) -> None:
        """Have the segments of a session translated, each with those before it as context."""
        name = f"profile-{next(self._names)}"
        opened = OpenSession(name, name, None, "", CHUNK_MS, translate=(self._target,))
        target = TranslationTarget(self._target, self._rule, 1, Translating())
        placement = self._pool.placement()
        try:
            for segment in itertools.count():
                said = self._said[int(self._chance.integers(len(self._said)))]
                steps = math.ceil(said.seconds * 1000 / CHUNK_MS)
                for source in _sources(target, segment, said, steps):
                    await self._step(placement, target, opened, source)
                    told(said.seconds / steps)
        finally:
            placement.leave()

    async def _step(
        self,
        placement: Placement,
        target: TranslationTarget,
        opened: OpenSession,
        source: Source | None,
    ) -> None:
        if source is None:
            return
        whole, source.asked = source.whole, source.text
        request = request_for(opened, target, source, whole=whole)
        reply = await placement.ask(request, TranslateReply, self._patience, "translating")
        target.answered(source, whole, reply)


def _sources(
    target: TranslationTarget, segment: int, said: Said, steps: int
) -> Iterator[Source | None]:
    """Let the text of a segment grow; yield at each step what is to be asked for, if anything."""
    for step in range(1, steps):
        committed = said.text[: last_cut(said.text, len(said.text) * step // steps)]
        if committed:
            target.grown(segment, committed, said.language)
        yield target.next()
    target.ended(segment, said.text, said.language, math.inf)
    yield target.next()


def _target(spoken: str, targets: Sequence[str]) -> str:
    known = targets or _ANY
    found = next((one for one in known if one != language_code(spoken)), None)
    if found is None:
        raise AuricleError(
            f"the recordings are in {spoken}, into which alone the pool translates: name speech "
            "in another language with --audio, or add to Common.translate_targets"
        )
    return found


# What is said is taken from so many pieces of the recordings, of at most so many seconds.
_PIECES, _PIECE_SECONDS = 24, 10.0
_SHORTEST = SAMPLE_RATE // 2


async def measure_beside(
    stage: Stage, told: Callable[[str], None]
) -> dict[PoolKind, tuple[float, float]]:
    """Return what each pool carries, as `BesideRamp.carried` does; empty where there is none.

    `told` is given a line for each level. Raises AuricleError if a pool cannot be measured.
    """
    runtime = Runtime(stage.settings)
    found: dict[PoolKind, tuple[float, float]] = {}
    try:
        for asking in await askings(runtime, stage):
            ramp = BesideRamp(runtime, stage.settings.load_report_seconds, asking, told)
            found |= await ramp.carried()
    finally:
        runtime.close()
    return found


async def askings(runtime: Runtime, stage: Stage) -> list[Asking]:
    settings = stage.settings
    found: list[Asking] = []
    if settings.align_model is not None:
        aligner = await asyncio.to_thread(open_checkpoint, settings.align_model)
        found.append(AlignAsking(runtime, stage, aligner))
    if settings.speaker_model is not None:
        found.append(DiarizeAsking(runtime, stage))
    if settings.translate_model is not None:
        model = await asyncio.to_thread(open_text_model, settings.translate_model)
        said = await _said(runtime, stage)
        targets = settings.translate_targets or model.targets
        found.append(TranslateAsking(runtime, settings, said, targets))
    return found


async def _said(runtime: Runtime, stage: Stage) -> list[Said]:
    """Have the recordings recognised, which come without their text."""
    cast = Cast(runtime, stage)
    await cast.ready()
    return [await cast.said(piece) for piece in itertools.islice(_pieces(stage), _PIECES)]


def _pieces(stage: Stage) -> itertools.chain[Int16]:
    """Return pieces of the recordings, those from the beginning of each first."""
    length = int(_PIECE_SECONDS * SAMPLE_RATE)
    longest = max(len(recording) for recording in stage.recordings)
    return itertools.chain.from_iterable(
        [one[at : at + length] for one in stage.recordings if len(one) > at + _SHORTEST]
        for at in range(0, longest, length)
    )
