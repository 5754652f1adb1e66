"""The disaggregated path against a single process, and the cost of each chunk."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from auricle.audio.pcm import Int16, to_float, to_int16
from auricle.checkpoints.files import open_checkpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.config.settings import ProcessorSettings
from auricle.dynamo import Runtime
from auricle.embeddings.layout import ITEM_BYTES, SlabLayout
from auricle.load.chunk_load import ChunkLoad
from auricle.processor.driver import CheckpointView, SessionDriver
from auricle.processor.pools import EncodePool, PdPool
from auricle.processor.recognizer import DecodeTask, Recognizer
from auricle.processor.segment_encoder import SegmentEncoder
from auricle.processor.session.windows import KeyScheme, SegmentAudio
from auricle.processor.usage import UsageMeter
from auricle.protocol.recognition import WindowRef
from auricle.protocol.sessions import OpenSession, SegmentFinal, SegmentPartial, SessionReady
from auricle.workers.encode.encoder import MelBlock
from auricle.workers.encode.windowed import WindowedEncoder
from auricle_testing import recordings
from auricle_testing.server import ROOT, Server, eventually
from models.training.reference import Reference

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]
MODEL = ROOT / "models/demo"
GRID = 10_240
BLOCK_SIZE = 32  # configs/demo.yaml


@dataclass(frozen=True)
class Processor:
    """A processor's parts in the test's process, with calls to the server's real workers."""

    settings: ProcessorSettings
    view: CheckpointView
    encode_pool: EncodePool
    pd_pool: PdPool

    def recognizer(self, session: str, tenant: str = "test") -> Recognizer:
        return Recognizer(session, tenant, self.encode_pool, self.pd_pool)

    def segment(self, tenant: str = "test") -> SegmentAudio:
        scheme = KeyScheme(self.view.fingerprint, self.settings.dtype, tenant)
        return SegmentAudio(self.view.geometry, scheme)


@pytest.fixture(scope="module")
def reference() -> Reference:
    torch.set_num_threads(1)
    return Reference(MODEL)


@pytest.fixture
async def processor(server: Server) -> AsyncIterator[Processor]:
    settings = ProcessorSettings(
        model=MODEL,
        discovery_path=server.discovery,
        pause_after_seconds=290,
        max_segment_seconds=300,
    )
    checkpoint = open_checkpoint(MODEL)
    view = CheckpointView(checkpoint.geometry, PromptFormat(checkpoint), checkpoint.fingerprint)
    runtime = Runtime(settings)
    encode_pool = EncodePool(runtime.client("encode_worker", "generate"), 20.0, 2)
    pd_pool = PdPool(runtime.client("pd_worker", "generate"), 60.0, 2)
    await encode_pool.ready(60)
    await pd_pool.ready(60)
    yield Processor(settings, view, encode_pool, pd_pool)
    runtime.close()


@pytest.mark.parametrize("name", recordings.NAMES)
async def test_tokens_equal_a_single_process_running_the_same_checkpoint(
    processor: Processor, reference: Reference, name: str
) -> None:
    pcm = to_int16(recordings.samples(name))
    audio = processor.segment()
    audio.push(pcm)
    prompt = processor.view.prompt
    recognizer = processor.recognizer(f"exact-{name}")
    task = DecodeTask(prompt.head("peter hat"), prompt.tail(None), 200, final=True)
    reply = await recognizer.decode(audio, len(pcm), task, UsageMeter())
    recognizer.close()
    expected = reference.tokens(to_float(pcm), context="peter hat", max_tokens=200)
    assert reply.tokens == expected


async def test_windows_of_digital_silence_which_are_equal_are_decoded_like_others(
    processor: Processor, reference: Reference
) -> None:
    pcm = np.zeros(25 * 16_000, np.int16)
    audio = processor.segment("silence")
    audio.push(pcm)
    keys = [window.key for window in audio.windows(len(pcm))]
    assert len(set(keys)) < len(keys)
    prompt = processor.view.prompt
    recognizer = processor.recognizer("silence", "silence")
    task = DecodeTask(prompt.head(""), prompt.tail(None), 20, final=True)
    reply = await recognizer.decode(audio, len(pcm), task, UsageMeter())
    recognizer.close()
    assert reply.tokens == reference.tokens(to_float(pcm), context="", max_tokens=20)


def chunk(pcm: Int16, number: int) -> bytes:
    return pcm[number * GRID : (number + 1) * GRID].tobytes()


async def test_a_minute_costs_the_same_per_chunk_from_start_to_end(
    processor: Processor, server: Server
) -> None:
    """One 60 s segment: finished windows are encoded once, and read by NIXL once."""
    pcm = to_int16(recordings.minute())
    geometry = processor.view.geometry
    layout = SlabLayout(geometry.hidden_size, ITEM_BYTES["float32"], geometry.window_embeddings)
    whole_before = server.metric(
        "EncodeWorker", "auricle_encode_worker_windows_encoded_total", state="whole"
    )
    bytes_before = server.metric("PdWorker", "auricle_pd_worker_received_bytes_total")
    opened = OpenSession("minute", "minute", None, "", 640)
    session = SessionDriver(
        opened,
        processor.settings,
        processor.view,
        processor.recognizer("minute", "minute"),
        ChunkLoad(60.0),
    )
    events = session.events()
    assert isinstance(await anext(events), SessionReady)
    audio_prefilled: list[int] = []
    for number in range(len(pcm) // GRID):
        before = session.usage.report(0)
        tail = len(processor.view.prompt.tail(None)) + len(
            session.session.segment.stability.committed
        )
        await session.push(number * GRID, chunk(pcm, number), 1.0)
        async with asyncio.timeout(60):
            event = await anext(events)
        assert isinstance(event, SegmentPartial)
        after = session.usage.report(0)
        assert after.decodes - before.decodes == 1
        # The growing window, and once in 8 s also the window that was just finished.
        encoded = after.windows_encoded - before.windows_encoded
        frames = (number + 1) * GRID // 160
        lengths = _new_lengths(frames)
        assert encoded == len(lengths)
        # The current second, and the one in which the chunk began; a window's last frame comes
        # late.
        convolved = after.blocks_convolved - before.blocks_convolved
        assert convolved <= 2 + (len(lengths) - 1)
        moved = after.embedding_bytes_read - before.embedding_bytes_read
        assert moved == sum(layout.content_bytes(geometry.embeddings(n)) for n in lengths)
        prefilled = (after.prompt_tokens - before.prompt_tokens) - (
            after.cached_tokens - before.cached_tokens
        )
        audio_prefilled.append(prefilled - tail)
    await events.aclose()
    whole = server.metric(
        "EncodeWorker", "auricle_encode_worker_windows_encoded_total", state="whole"
    )
    assert whole - whole_before == 7  # 60 s are seven finished windows and a half
    # One window, its predecessor's rounding to blocks, and the start of the next one.
    assert max(audio_prefilled) <= geometry.window_embeddings + 2 * BLOCK_SIZE
    third = len(audio_prefilled) // 3
    assert max(audio_prefilled[-third:]) <= max(audio_prefilled[:third]) + BLOCK_SIZE
    total = server.metric("PdWorker", "auricle_pd_worker_received_bytes_total")
    assert total - bytes_before == session.usage.embedding_bytes_read


def _new_lengths(frames: int) -> list[int]:
    """Frames of the new windows at a decode of `frames`: 64 more than at the last one.

    A window is finished when its last frame is final, one frame after it is full.
    """
    before = frames - GRID // 160
    finished = range((before - 1) // 800 if before else 0, (frames - 1) // 800)
    return [800 for _ in finished] + [frames - (frames - 1) // 800 * 800]


async def test_finished_text_starts_with_all_that_was_committed(processor: Processor) -> None:
    pcm = to_int16(recordings.samples("kitchen"))
    opened = OpenSession("grow", "test", None, "", 640)
    session = SessionDriver(
        opened, processor.settings, processor.view, processor.recognizer("grow"), ChunkLoad(60.0)
    )
    events = session.events()
    await anext(events)
    committed = ""
    for number in range(len(pcm) // GRID):
        await session.push(number * GRID, chunk(pcm, number), 1.0)
        event = await anext(events)
        assert isinstance(event, SegmentPartial)
        assert event.committed.startswith(committed)
        committed = event.committed
    session.end(session.session.inbox.received)
    final = await anext(events)
    assert isinstance(final, SegmentFinal)
    assert committed
    assert final.text.startswith(committed)
    await events.aclose()


async def test_missing_windows_are_encoded_again(
    processor: Processor, reference: Reference
) -> None:
    """A PD worker that has lost a window reports that, and the decode continues."""
    pcm = to_int16(recordings.samples("kitchen"))
    audio = processor.segment("forgetful")
    audio.push(pcm)
    prompt = processor.view.prompt
    recognizer = processor.recognizer("forgetful", "forgetful")
    # As if the PD worker had read these windows before a restart.
    recognizer._on_pd_worker.update(w.key for w in audio.windows(len(pcm)))
    task = DecodeTask(prompt.head(""), prompt.tail(None), 100, final=True)
    usage = UsageMeter()
    reply = await recognizer.decode(audio, len(pcm), task, usage)
    recognizer.close()
    assert reply.tokens == reference.tokens(to_float(pcm), context="", max_tokens=100)
    assert usage.windows_encoded == len(audio.windows(len(pcm)))


async def test_a_lease_is_released_by_the_read(processor: Processor, server: Server) -> None:
    def open_leases() -> float:
        return server.metric("EncodeWorker", "auricle_encode_worker_open_leases")

    # Unread leases of other tests end at their deadline, after 30 s.
    await eventually(lambda: open_leases() == 0, seconds=90)
    pcm = to_int16(recordings.samples("hello"))
    audio = processor.segment("leases")
    audio.push(pcm)
    prompt = processor.view.prompt
    recognizer = processor.recognizer("leases", "leases")
    task = DecodeTask(prompt.head(""), prompt.tail(None), 50, final=True)
    usage = UsageMeter()
    await recognizer.decode(audio, len(pcm), task, usage)
    recognizer.close()
    assert usage.windows_encoded > 0
    # Before the lease's deadline of 30 s.
    await eventually(lambda: open_leases() == 0, seconds=20)


async def test_an_encode_worker_that_forgot_a_window_is_sent_it_whole(
    processor: Processor, reference: Reference
) -> None:
    pcm = to_int16(recordings.samples("kitchen"))
    audio = processor.segment("forgot")
    audio.push(pcm)
    prompt = processor.view.prompt
    recognizer = processor.recognizer("forgot", "forgot")
    # As if the processor had sent all blocks before the encode worker was replaced.
    instance = await recognizer._encoder.placement.instance()
    recognizer._encoder._sent.arrived(instance, audio.windows(len(pcm)))
    task = DecodeTask(prompt.head(""), prompt.tail(None), 100, final=True)
    usage = UsageMeter()
    reply = await recognizer.decode(audio, len(pcm), task, usage)
    recognizer.close()
    assert reply.tokens == reference.tokens(to_float(pcm), context="", max_tokens=100)
    assert usage.blocks_convolved == -(-len(pcm) // 16_000)


async def test_embeddings_equal_one_shot_encoding_at_every_decode_offset_of_a_minute(
    reference: Reference,
) -> None:
    """Finished seconds and finished windows are reused by key, as in the workers."""
    checkpoint = open_checkpoint(MODEL)
    encoder = WindowedEncoder(checkpoint, "float32", "cpu", threads=1)
    pcm = to_int16(recordings.minute())
    audio = SegmentAudio(checkpoint.geometry, KeyScheme(checkpoint.fingerprint, "float32", "t"))
    audio.push(pcm)
    convolved: dict[str, torch.Tensor] = {}
    encoded: dict[str, torch.Tensor] = {}
    for offset in [*range(GRID, len(pcm), GRID), len(pcm)]:
        for window in (windows := audio.windows(offset)):
            if window.key in encoded:
                continue
            for block in window.blocks:
                if block.key not in convolved:
                    (output,) = encoder.convolve([MelBlock(block.frames, window.floor)])
                    convolved[block.key] = output
            (embeddings,) = encoder.attend([[convolved[b.key] for b in window.blocks]])
            encoded[window.key] = embeddings
        mine = torch.cat([encoded[w.key] for w in windows])
        expected = reference.embeddings(to_float(pcm[:offset]))
        np.testing.assert_allclose(mine.numpy(), expected.numpy(), atol=1e-4)


@pytest.mark.parametrize("what", ["header", "embeddings"])
async def test_a_slot_that_somebody_overwrote_costs_time_and_not_words(
    processor: Processor, reference: Reference, server: Server, what: str
) -> None:
    """NIXL lets any process that has a slot's address write to it.

    The owner detects a wrong header; the reader detects wrong embeddings and has them evicted.
    """
    tenant = f"overwritten {what}"
    pcm = to_int16(recordings.samples("hello"))
    audio = processor.segment(tenant)
    audio.push(pcm)
    name = "auricle_encode_worker_slots_spoiled_total"
    before = server.metric("EncodeWorker", name)
    encoder = SegmentEncoder(processor.encode_pool, "spoil", tenant)
    encoded = await encoder.encode(
        audio.windows(len(pcm)), background=False, trace="", wait_for_room=True
    )
    for ref in encoded.windows:
        address = ref.header if what == "header" else ref.address
        await asyncio.to_thread(overwrite, ref, address)
    prompt = processor.view.prompt
    recognizer = processor.recognizer("spoiled", tenant)
    task = DecodeTask(prompt.head("peter hat"), prompt.tail(None), 200, final=True)
    reply = await recognizer.decode(audio, len(pcm), task, UsageMeter())
    recognizer.close()
    assert reply.tokens == reference.tokens(to_float(pcm), context="peter hat", max_tokens=200)
    assert server.metric("EncodeWorker", name) - before == len(encoded.windows)


def overwrite(ref: WindowRef, address: int) -> None:
    """Write zeros over 64 bytes at `address`, as any holder of a window's ref can."""
    from nixl._api import nixl_agent, nixl_agent_config

    agent = nixl_agent(f"vandal-{ref.key}", nixl_agent_config(enable_prog_thread=True))
    zeros = np.zeros(64, np.uint8)
    at = (zeros.ctypes.data, zeros.nbytes, 0)
    agent.register_memory(agent.get_reg_descs([(*at, "")], "DRAM"))
    peer = agent.add_remote_agent(ref.agent_metadata)
    handle = agent.initialize_xfer(
        "WRITE",
        agent.get_xfer_descs([at], "DRAM"),
        agent.get_xfer_descs([(address, zeros.nbytes, 0)], "DRAM"),
        peer.decode() if isinstance(peer, bytes) else peer,
    )
    agent.transfer(handle)
    while (state := agent.check_xfer_state(handle)) == "PROC":
        time.sleep(0.001)  # NIXL has no callback
    assert state == "DONE"
    agent.release_xfer_handle(handle)
