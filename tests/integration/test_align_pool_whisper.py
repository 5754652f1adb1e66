"""Whisper aligns its own text: real processes, NIXL, and the transcription's embeddings."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from auricle.audio.pcm import to_float, to_int16
from auricle.checkpoints.files import open_checkpoint
from auricle.config.settings import ProcessorSettings
from auricle.dynamo import WORKER_PULSE, Runtime
from auricle.processor.annotators.words import FinalSegment, WordAligner
from auricle.processor.pools import EncodePool, Pool
from auricle.processor.segment_encoder import SentBlocks
from auricle.processor.session.windows import KeyScheme, SegmentAudio
from auricle.protocol.annotation import AlignRequest
from auricle.protocol.recognition import EncodeReply, EncodeRequest
from auricle.transcript.words import pieces
from auricle.workers.align.passes import aligner_for
from auricle.workers.align.scripts import prompt_for
from auricle.workers.align.utterances import Utterance
from auricle_testing import recordings
from auricle_testing.checkpoints.whisper import random_whisper
from tests.integration.aligning import START_SECONDS, starting

pytestmark = [pytest.mark.integration, pytest.mark.deployment]
SPEECH = to_int16(np.tile(recordings.samples("kitchen"), 2))
TEXT = "Ten red apples, at the market: on a Monday morning!"


async def test_words_are_aligned_with_what_was_encoded_for_text(tmp_path: Path) -> None:
    path, discovery = tmp_path / "whisper", tmp_path / "discovery"
    stock = random_whisper(path)
    checkpoint = open_checkpoint(path)
    options = (f"--Common.model={path}", "--AlignWorker.max_tokens=448")
    with starting(path, discovery, *options) as start:
        for name in ("EncodeWorker", "AlignWorker"):
            start(name)
        runtime = Runtime(ProcessorSettings(align_model=path, discovery_path=discovery))
        try:
            encode = runtime.client("encode_worker", "generate")
            align = runtime.client("align_worker", "generate")
            encode_pool = EncodePool(encode, 60.0, 1)
            pool = Pool(align, 60.0, 4, runtime.pulses("align_worker", align, WORKER_PULSE))
            await encode_pool.ready(START_SECONDS)
            await pool.ready(START_SECONDS)
            aligner = WordAligner(checkpoint, "float32", encode_pool, pool, encoded=True)
            split = pieces(TEXT)
            words, texts = tuple(p.word for p in split), tuple(p.text for p in split)
            for samples in (4 * 16_000, 11 * 16_000 + 77):
                audio = SegmentAudio(
                    checkpoint.geometry, KeyScheme(checkpoint.fingerprint, "float32", "t")
                )
                audio.push(SPEECH[:samples])
                windows = audio.windows(samples)
                instance = await encode_pool.place()
                asked = EncodeRequest("s", "t", SentBlocks().features(instance, windows))
                reply: EncodeReply = await encode_pool.call(instance, asked, EncodeReply)
                assert reply.encoded == 1
                spoken = FinalSegment(
                    *("s", "t", audio, samples, samples // 16, words, False, "", texts, "English"),
                    encoder=instance,
                )
                found = await asyncio.gather(*(aligner.times(spoken, 60.0) for _ in range(3)))
                again = await encode_pool.call(instance, asked, EncodeReply)
                assert again.encoded == 0
                request = AlignRequest(
                    "s", "t", (), words, samples // 16, texts=texts, language="English"
                )
                script = prompt_for(checkpoint).script(request)
                heard = stock.embeddings(to_float(SPEECH[:samples]))
                (marks,) = aligner_for(checkpoint, "float32", "cpu", 1).marks(
                    [Utterance(heard, script.ids, script.lead, samples // 16)]
                )
                expected = script.times_ms(marks)
                for times in found:
                    assert list(times) == sorted(times) and times[-1] <= samples // 16
                    # Random attention has near ties, which a batch may resolve differently.
                    assert max(abs(a - b) for a, b in zip(times, expected, strict=True)) <= 100
        finally:
            runtime.close()
