"""Two PD processes on one device: both answer with the same tokens."""

from __future__ import annotations

import asyncio

import pytest
import torch

from auricle.audio.pcm import to_float, to_int16
from auricle.checkpoints.files import open_checkpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.config.settings import ProcessorSettings
from auricle.dynamo import Runtime
from auricle.processor.pools import EncodePool, PdPool
from auricle.processor.recognizer import DecodeTask, Recognizer
from auricle.processor.session.windows import KeyScheme, SegmentAudio
from auricle.processor.usage import UsageMeter
from auricle.protocol.recognition import DecodeReply
from auricle_testing import recordings
from auricle_testing.replicas import used
from auricle_testing.server import ROOT, Server
from models.training.reference import Reference
from tests.integration.observed.conftest import PLACEMENT

pytestmark = pytest.mark.integration
MODEL = ROOT / "models/demo"


async def test_both_answer_with_the_tokens_of_a_single_process(observed: Server) -> None:
    ports = [observed.system_ports[name] for name in ("PdWorker", "PdWorker-2")]
    settings = ProcessorSettings(
        model=MODEL, discovery_path=observed.discovery, placement=PLACEMENT
    )
    checkpoint = open_checkpoint(MODEL)
    prompt = PromptFormat(checkpoint)
    runtime = Runtime(settings)
    encode_pool = EncodePool(runtime.client("encode_worker", "generate"), 20.0, 2)
    workers = runtime.client("pd_worker", "generate")
    pd_pool = PdPool(workers, 60.0, 2)
    await encode_pool.ready(60)
    async with asyncio.timeout(60):  # a new client discovers them one after the other
        while len(await workers.instances()) < 2:  # noqa: ASYNC110  it only answers
            await asyncio.sleep(0.05)
    pcm = to_int16(recordings.samples("kitchen"))
    before = [used(port, "PdWorker") for port in ports]

    async def decoded(number: int) -> DecodeReply:
        # Each decode has a tenant of its own, so that they share no cache.
        scheme = KeyScheme(checkpoint.fingerprint, settings.dtype, f"tenant-{number}")
        audio = SegmentAudio(checkpoint.geometry, scheme)
        audio.push(pcm)
        recognizer = Recognizer(f"shared-{number}", f"tenant-{number}", encode_pool, pd_pool)
        try:
            task = DecodeTask(prompt.head(""), prompt.tail(None), 200, final=True)
            return await recognizer.decode(audio, len(pcm), task, UsageMeter())
        finally:
            recognizer.close()

    try:
        replies = await asyncio.gather(*(decoded(number) for number in range(4)))
    finally:
        runtime.close()
    torch.set_num_threads(1)
    expected = Reference(MODEL).tokens(to_float(pcm), context="", max_tokens=200)
    assert [reply.tokens for reply in replies] == [expected] * 4
    after = [used(port, "PdWorker") for port in ports]
    answered = [now - then for now, then in zip(after, before, strict=True)]
    assert sum(answered) == 4
    assert min(answered) >= 1
