"""Measures the annotation pools of a deployment, one after another."""

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
from auricle.processor.pools import EncodePool, Placement, Pool, TranslatePool
from auricle.processor.session.windows import KeyScheme, SegmentAudio
from auricle.protocol.annotation import TranslateReply, Translating
from auricle.protocol.sessions import OpenSession
from auricle.tools.load_generation.speakers import (
    CHUNK_MS,
    LoadInput,
    SpeakerPools,
    SpokenText,
    random_part,
)
from auricle.tools.profiling.annotation_load import (
    SEGMENT_SECONDS,
    AnnotationRamp,
    Answered,
    DiarizeWorkload,
    Workload,
)

_WORDS_PER_SECOND = 2.5
HALVES: Final[tuple[PoolKind, ...]] = ("align_encode_worker", "align_worker")


class AlignWorkload:
    """Requests the times of the words of segments, from both halves of the align pool.

    An aligner that is the model has no encode workers of its own.
    """

    def __init__(self, runtime: Runtime, source: LoadInput, aligner: ModelCheckpoint) -> None:
        settings, own = source.settings, aligner.fingerprint == source.checkpoint.fingerprint
        self.kinds: tuple[PoolKind, ...] = HALVES[1:] if own else HALVES
        self._source = source
        self._chance = np.random.default_rng(0)
        self._names = itertools.count()
        encoders: PoolKind = "encode_worker" if own else HALVES[0]
        clients = [runtime.client(kind, "generate") for kind in (encoders, HALVES[1])]
        self._deadline_seconds = settings.words_deadline_seconds
        self._pools = (
            EncodePool(clients[0], self._deadline_seconds, 1),
            Pool(clients[1], self._deadline_seconds, settings.attempts),
        )
        self._aligner = WordAligner(aligner, settings.dtype, *self._pools)

    async def ready(self, seconds: float) -> None:
        """Wait until both halves can be called."""
        for pool in self._pools:
            await pool.ready(seconds)

    async def run(self, kind: PoolKind | None, answered: Answered) -> None:
        """Have segments aligned, or only encoded. Without the encode worker, one segment is
        encoded once and aligned again and again."""
        segment = self._segment()
        while True:
            if kind == "align_encode_worker":
                await self._aligner.encoded(segment)
            else:
                await self._aligner.times(segment, self._deadline_seconds)
            answered(SEGMENT_SECONDS)
            if kind != "align_worker":
                segment = self._segment()

    def _segment(self) -> FinalSegment:
        """Return a part of a recording with a key of its own, so that it is encoded anew."""
        source, name = self._source, f"profile-{next(self._names)}"
        samples = int(SEGMENT_SECONDS * SAMPLE_RATE)
        keys = KeyScheme(source.checkpoint.fingerprint, source.settings.dtype, name)
        audio = SegmentAudio(source.checkpoint.geometry, keys)
        audio.push(random_part(source.recordings, samples, self._chance))
        words = ("profile",) * round(SEGMENT_SECONDS * _WORDS_PER_SECOND)
        return FinalSegment(
            *(name, name, audio, samples, milliseconds(samples), words),
            background=False,
            trace="",
            texts=tuple(f"{word} " for word in words),
            language="English",
        )


# For a model that names no languages: the first that is not the recordings'.
_ANY = ("es", "en")


class TranslateWorkload:
    """Requests translations of the recordings' text.

    As in a session, a segment is translated again whenever more of its text is committed.
    """

    kinds: tuple[PoolKind, ...] = ("translate_worker",)

    def __init__(
        self,
        runtime: Runtime,
        settings: ProcessorSettings,
        utterances: Sequence[SpokenText],
        targets: Sequence[str],
    ) -> None:
        """`targets` are the languages into which the pool translates; empty for any.

        Raises AuricleError without text, or if all of it is in the only target language.
        """
        spoken = [one for one in utterances if one.text]
        if not spoken:
            raise AuricleError(
                "nothing was recognised in the recordings, so there is nothing to translate: name "
                "typical speech with --audio"
            )
        self._target = _target(spoken[0].language, targets)
        # Text in the target language would be answered without the pool.
        self._utterances = [o for o in spoken if language_code(o.language) != self._target]
        self._rule = translation_rule(settings)
        self._chance = np.random.default_rng(0)
        self._names = itertools.count()
        self._deadline_seconds = settings.translation_deadline_seconds
        client = runtime.client("translate_worker", "generate")
        self._pool = TranslatePool(client, self._deadline_seconds, settings.attempts)

    async def ready(self, seconds: float) -> None:
        """Wait until the pool can be called."""
        await self._pool.ready(seconds)

    async def run(self, _kind: PoolKind | None, answered: Answered) -> None:
        """Have the segments of a session translated, each with the ones before it as context."""
        name = f"profile-{next(self._names)}"
        opened = OpenSession(name, name, None, "", CHUNK_MS, translate=(self._target,))
        target = TranslationTarget(self._target, self._rule, 1, Translating())
        placement = self._pool.placement()
        try:
            for segment in itertools.count():
                utterance = self._utterances[int(self._chance.integers(len(self._utterances)))]
                steps = math.ceil(utterance.seconds * 1000 / CHUNK_MS)
                for source in _sources(target, segment, utterance, steps):
                    await self._step(placement, target, opened, source)
                    answered(utterance.seconds / steps)
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
        whole, source.requested_text = source.whole, source.text
        request = request_for(opened, target, source, whole=whole)
        reply = await placement.ask(request, TranslateReply, self._deadline_seconds, "translating")
        target.answered(source, whole, reply)


def _sources(
    target: TranslationTarget, segment: int, utterance: SpokenText, steps: int
) -> Iterator[Source | None]:
    """Let the text of a segment grow; yield the source to translate at each step, if any."""
    for step in range(1, steps):
        text = utterance.text
        committed = text[: last_cut(text, len(text) * step // steps)]
        if committed:
            target.grown(segment, committed, utterance.language)
        yield target.next()
    target.ended(segment, utterance.text, utterance.language, math.inf)
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


# Texts are from this number of pieces of the recordings, of at most this length.
_PIECES, _PIECE_SECONDS = 24, 10.0
_SHORTEST = SAMPLE_RATE // 2


async def measure_annotations(
    source: LoadInput, log: Callable[[str], None]
) -> dict[PoolKind, tuple[float, float]]:
    """Return each annotation pool's capacity and limit, as `AnnotationRamp.carried` does.

    `log` receives a line for each level. Raises AuricleError if a pool cannot be measured.
    """
    runtime = Runtime(source.settings)
    found: dict[PoolKind, tuple[float, float]] = {}
    try:
        for workload in await workloads(runtime, source):
            ramp = AnnotationRamp(runtime, source.settings.load_report_seconds, workload, log)
            found |= await ramp.carried()
    finally:
        runtime.close()
    return found


async def workloads(runtime: Runtime, source: LoadInput) -> list[Workload]:
    """Return a workload for each annotation that the deployment has."""
    settings = source.settings
    found: list[Workload] = []
    if settings.align_model is not None:
        aligner = await asyncio.to_thread(open_checkpoint, settings.align_model)
        found.append(AlignWorkload(runtime, source, aligner))
    if settings.speaker_model is not None:
        found.append(DiarizeWorkload(runtime, source))
    if settings.translate_model is not None:
        model = await asyncio.to_thread(open_text_model, settings.translate_model)
        utterances = await _transcribed(runtime, source)
        targets = settings.translate_targets or model.targets
        found.append(TranslateWorkload(runtime, settings, utterances, targets))
    return found


async def _transcribed(runtime: Runtime, source: LoadInput) -> list[SpokenText]:
    """Return the texts of the recordings."""
    speakers = SpeakerPools(runtime, source)
    await speakers.ready()
    pieces = itertools.islice(_pieces(source), _PIECES)
    return [await speakers.transcribe(piece) for piece in pieces]


def _pieces(source: LoadInput) -> itertools.chain[Int16]:
    """Return pieces of the recordings, those from the beginning of each first."""
    length = int(_PIECE_SECONDS * SAMPLE_RATE)
    longest = max(len(recording) for recording in source.recordings)
    return itertools.chain.from_iterable(
        [one[at : at + length] for one in source.recordings if len(one) > at + _SHORTEST]
        for at in range(0, longest, length)
    )
