"""A segment's path to the aligner: encoded with its own checkpoint, and retried after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from auricle.checkpoints.files import ModelCheckpoint, open_checkpoint
from auricle.core.errors import (
    AuricleError,
    BadRequest,
    DeadlineExceeded,
    FeaturesMissing,
    Overloaded,
    WindowsMissing,
    WindowsSpoiled,
    WorkerUnavailable,
)
from auricle.load.pools import Starting
from auricle.load.reports import PoolKind, StartingPools
from auricle.processor.annotators.words import FinalSegment, WordAligner
from auricle.processor.pools import EncodePool, Pool
from auricle.processor.session.windows import KeyScheme, SegmentAudio
from auricle.protocol.annotation import AlignReply, AlignRequest
from auricle.protocol.recognition import EncodeReply, EncodeRequest, WindowRef
from auricle_testing.checkpoints.whisper import random_english_whisper, random_whisper
from tests.fakes.workers import CHECKPOINT, noise

pytestmark = pytest.mark.unit
SAMPLES = 10 * 16_000
WORDS, TEXTS = ("one", "two"), ("One, ", "two.")
TIMES = (0, 80, 80, 160)


class Workers:
    """Two instances of each pool; requests fail as scripted."""

    def __init__(self) -> None:
        self.encodes: list[tuple[int, EncodeRequest]] = []
        self.aligns: list[tuple[int, AlignRequest]] = []
        self.faults: list[AuricleError] = []
        self.encode_faults: list[AuricleError] = []
        self.there = True
        self.times = TIMES
        self.hangs = False

    async def usable(self, seconds: float, avoid: Iterable[int] = ()) -> list[int]:
        if not self.there:
            raise WorkerUnavailable("no instance")
        return [i for i in (1, 2) if i not in avoid] or [1, 2]

    async def listed(self) -> list[int]:
        return [1, 2] if self.there else []

    def suspected(self, _instance: int) -> bool:
        return False

    async def call(self, message: object, reply: object, instance: int, seconds: float) -> object:
        await asyncio.sleep(0)
        if isinstance(message, EncodeRequest):
            self.encodes.append((instance, message))
            if self.encode_faults:
                raise self.encode_faults.pop(0)
            refs = tuple(
                WindowRef(w.key, "f", "float32", 1, f"a{instance}", b"", 0, 1, 0, "", 0, 7, 3, 1)
                for w in message.windows
            )
            return EncodeReply(refs, len(refs))
        assert isinstance(message, AlignRequest)
        self.aligns.append((instance, message))
        if self.hangs:
            await asyncio.Event().wait()
        if self.faults:
            raise self.faults.pop(0)
        return AlignReply(self.times)


def aligner(
    workers: Workers,
    starting: Starting | None = None,
    checkpoint: ModelCheckpoint = CHECKPOINT,
    *,
    encoded: bool = False,
) -> WordAligner:
    planned = starting or Starting()
    encode_pool = EncodePool(
        workers,  # type: ignore[arg-type]
        *(60.0, 1),
        planned=lambda: "align_encode_worker" in planned,
    )
    pool = Pool(workers, 60.0, 3, planned=lambda: "align_worker" in planned)  # type: ignore[arg-type]
    return WordAligner(checkpoint, "float32", encode_pool, pool, encoded=encoded)


def spoken() -> FinalSegment:
    audio = SegmentAudio(CHECKPOINT.geometry, KeyScheme("the decoder's", "float32", "t"))
    audio.push(np.frombuffer(noise(SAMPLES + 16_000), "<i2"))
    return FinalSegment("s", "t", audio, SAMPLES, SAMPLES // 16, WORDS, False, "", TEXTS, "English")


async def test_a_segment_is_encoded_for_the_aligner_and_aligned() -> None:
    workers, segment = Workers(), spoken()
    assert await aligner(workers).times(segment, 5.0) == TIMES
    ((_, encoded),), ((_, asked),) = workers.encodes, workers.aligns
    assert (asked.words, asked.audio_ms, asked.tenant) == (WORDS, 10_000, "t")
    assert (asked.texts, asked.language) == (("One, ", "two."), "English")
    # Only the segment's own audio, without later audio; its keys use the aligner's checkpoint.
    assert [window.length for window in asked.windows] == [104, 26]
    assert [window.key for window in asked.windows] == [w.key for w in encoded.windows]
    decoders = {window.key for window in segment.audio.windows(SAMPLES)}
    assert not decoders & {window.key for window in asked.windows}


def features(request: EncodeRequest) -> set[bool]:
    """Whether the final blocks of a request's windows have features."""
    blocks = [block for window in request.windows for block in window.blocks if block.final]
    return {block.log_mel is not None for block in blocks}


async def test_an_aligner_that_is_the_model_takes_what_was_encoded_for_text(tmp_path: Path) -> None:
    random_english_whisper(tmp_path)
    checkpoint = open_checkpoint(tmp_path)
    checkpoint = replace(checkpoint, geometry=checkpoint.geometry.before_cached_silence())
    keys = KeyScheme(checkpoint.fingerprint, "float32", "t")
    segment = replace(spoken(), audio=SegmentAudio(checkpoint.geometry, keys), encoder=2)
    segment.audio.push(np.frombuffer(noise(SAMPLES), "<i2"))
    text = segment.audio.windows(SAMPLES)
    workers = Workers()
    made = aligner(workers, checkpoint=checkpoint, encoded=True)
    assert await made.times(segment, 5.0) == TIMES
    ((instance, encoded),), ((_, asked),) = workers.encodes, workers.aligns
    assert [window.key for window in asked.windows] == [window.key for window in text]
    assert instance == 2 and features(encoded) == {False}
    # The worker has lost them meanwhile.
    workers.encode_faults = [FeaturesMissing((text[0].key,))]
    assert await made.times(segment, 5.0) == TIMES
    (_, before), (instance, again) = workers.encodes[1:]
    assert instance == 2 and features(before) == {False} and True in features(again)


def test_whispers_languages_are_all_aligned_if_they_are_known(tmp_path: Path) -> None:
    random_whisper(tmp_path / "many")
    random_english_whisper(tmp_path / "one")
    many = aligner(Workers(), checkpoint=open_checkpoint(tmp_path / "many"))
    assert many.aligns("Japanese") and many.aligns("English") and not many.aligns("")
    one = aligner(Workers(), checkpoint=open_checkpoint(tmp_path / "one"))
    assert one.aligns("English") and one.aligns("") and not one.aligns("German")
    forced = aligner(Workers())
    assert forced.aligns("English") and forced.aligns("") and not forced.aligns("Japanese")


async def test_what_cannot_be_read_is_encoded_by_another_worker() -> None:
    workers = Workers()
    key = spoken().audio.encoded_by(
        CHECKPOINT.geometry, KeyScheme(CHECKPOINT.fingerprint, "float32", "t")
    )
    lost = key.windows(SAMPLES)[0].key
    workers.faults = [WindowsMissing((lost,), "gone")]
    assert await aligner(workers).times(spoken(), 60.0) == TIMES
    assert [instance for instance, _ in workers.encodes] == [1, 2]


async def test_a_spoiled_slot_is_reported_to_its_owner() -> None:
    workers = Workers()
    view = spoken().audio.encoded_by(
        CHECKPOINT.geometry, KeyScheme(CHECKPOINT.fingerprint, "float32", "t")
    )
    workers.faults = [WindowsSpoiled((view.windows(SAMPLES)[0].key,), "overwritten")]
    assert await aligner(workers).times(spoken(), 60.0) == TIMES
    (first, plain), (second, telling) = workers.encodes
    assert first == second
    assert not plain.spoiled
    assert [(slot.agent, slot.slot, slot.generation) for slot in telling.spoiled] == [("a1", 7, 3)]


async def test_a_worker_that_fails_is_left_for_another_one() -> None:
    workers = Workers()
    workers.faults = [WorkerUnavailable("gone")]
    assert await aligner(workers).times(spoken(), 60.0) == TIMES
    assert [instance for instance, _ in workers.aligns] == [1, 2]


async def test_a_full_pool_is_asked_again() -> None:
    workers = Workers()
    workers.faults, workers.encode_faults = [Overloaded("full")], [Overloaded("full")]
    assert await aligner(workers).times(spoken(), 60.0) == TIMES


async def test_a_wrong_request_is_not_repeated() -> None:
    workers = Workers()
    workers.faults = [BadRequest("too many words")]
    with pytest.raises(BadRequest):
        await aligner(workers).times(spoken(), 60.0)
    assert len(workers.aligns) == 1


async def test_a_pool_that_is_not_there_is_named() -> None:
    workers = Workers()
    workers.there = False
    with pytest.raises(WorkerUnavailable, match="no instance"):
        await aligner(workers).times(spoken(), 0.1)


async def test_a_pool_that_does_not_answer_is_given_up() -> None:
    workers = Workers()
    workers.hangs = True
    with pytest.raises(DeadlineExceeded, match=r"aligning took longer than 0\.1 s"):
        await aligner(workers).times(spoken(), 0.1)


async def test_an_answer_about_other_words_is_not_taken() -> None:
    workers = Workers()
    workers.times = (0, 80)
    with pytest.raises(AuricleError, match="2 times for 2 words"):
        await aligner(workers).times(spoken(), 60.0)


@pytest.mark.parametrize("kind", ["align_encode_worker", "align_worker"])
async def test_a_pool_is_starting_until_its_first_worker_is_there(kind: PoolKind) -> None:
    workers, starting = Workers(), Starting()
    workers.there = False
    made = aligner(workers, starting)
    assert not await made.starting()  # no planner starts it, so it is missing
    starting.update(StartingPools(60.0, (kind,)))
    assert await made.starting()
    workers.there = True
    assert not await made.starting()
