"""The encode worker with its real encoder, without the network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from auricle.checkpoint.files import open_checkpoint
from auricle.embeddings.layout import HEADER_BYTES, SlabLayout
from auricle.embeddings.memory import HostSlab
from auricle.encode_worker.cost import EncoderCost
from auricle.encode_worker.encoder import Encoder
from auricle.encode_worker.metrics import EncodeWorkerMetrics
from auricle.encode_worker.store import EmbeddingStore, Identity
from auricle.encode_worker.worker import EncodeWorker
from auricle.errors import BadRequest
from auricle.messages import BlockFeatures, EncodeRequest, WindowFeatures, WindowRef
from auricle.settings import EncodeWorkerSettings
from auricle.tasks import cancelled
from tests.server import ROOT

pytestmark = pytest.mark.unit
CHECKPOINT = open_checkpoint(ROOT / "models/demo")
GEOMETRY = CHECKPOINT.geometry
FIRST, SECOND = "aa" * 16, "bb" * 16


@dataclass
class Running:
    worker: EncodeWorker
    slab: HostSlab

    def embeddings(self, ref: WindowRef) -> np.ndarray:
        memory = self.slab.slot(ref.slot)
        end = self.slab.layout.content_bytes(ref.length)
        return memory[HEADER_BYTES:end].view(np.float32).copy()


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    layout = SlabLayout(GEOMETRY.hidden_size, 4, GEOMETRY.window_embeddings)
    slab = HostSlab.private(layout, 8)
    store = EmbeddingStore(slab, 60.0)
    worker = EncodeWorker(
        EncodeWorkerSettings(),
        GEOMETRY,
        Encoder(CHECKPOINT, "float32", "cpu", threads=1),
        EncoderCost.of(CHECKPOINT.audio_config, GEOMETRY),
        store,
        Identity("agent", b"", CHECKPOINT.fingerprint, "float32"),
        EncodeWorkerMetrics(CollectorRegistry(), store),
        lambda: None,
    )
    loop = asyncio.create_task(worker.run())
    yield Running(worker, slab)
    await cancelled([loop])
    worker.close()


def block(key: str, frames: int, *, final: bool, sent: bool = True) -> BlockFeatures:
    values = np.random.default_rng(frames).uniform(-8, 2, (frames, 128)).astype(np.float32)
    return BlockFeatures(key, frames, final, values.tobytes() if sent else None)


def request(name: str, *blocks: BlockFeatures, ahead: bool = False) -> EncodeRequest:
    window = WindowFeatures(name * 16, -6.0, blocks, partial=True)
    return EncodeRequest("s", "t", (window,), ahead=ahead)


async def test_seconds_encoded_ahead_need_not_be_sent_or_convolved_again(running: Running) -> None:
    worker = running.worker
    first, last = block(FIRST, 100, final=True), block(SECOND, 60, final=False)
    at_once = await worker.encode(request("11", first, last))
    other = block("cc" * 16, 100, final=True)
    ahead = await worker.encode(request("22", other, ahead=True))
    assert (ahead.windows, ahead.encoded, ahead.convolved) == ((), 0, 1)
    then = await worker.encode(request("33", block("cc" * 16, 100, final=True, sent=False), last))
    assert then.convolved == 1
    np.testing.assert_allclose(
        running.embeddings(then.windows[0]), running.embeddings(at_once.windows[0]), atol=1e-5
    )


async def test_what_came_ahead_before_is_not_convolved_again(running: Running) -> None:
    ahead = request("11", block(FIRST, 100, final=True), ahead=True)
    await running.worker.encode(ahead)
    assert (await running.worker.encode(ahead)).convolved == 0


async def test_what_may_still_change_cannot_come_ahead(running: Running) -> None:
    with pytest.raises(BadRequest, match=f"block {SECOND} may still change"):
        await running.worker.encode(request("11", block(SECOND, 60, final=False), ahead=True))
