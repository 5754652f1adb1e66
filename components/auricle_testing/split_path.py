"""The split path in one process: a growing segment is encoded in parts by an encode worker.

Windows, keys, messages, caches and slots are the real ones; only the network is missing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import torch
from prometheus_client import CollectorRegistry

from auricle.audio.pcm import Int16
from auricle.checkpoints.files import ModelCheckpoint
from auricle.config.settings import EncodeWorkerSettings
from auricle.core.errors import FeaturesMissing
from auricle.embeddings.layout import SlabLayout
from auricle.embeddings.memory import HostSlab
from auricle.embeddings.slab import Slab
from auricle.processor.segment_encoder import SentBlocks
from auricle.processor.session.windows import KeyScheme, SegmentAudio, Window
from auricle.protocol.recognition import EncodeReply, EncodeRequest, WindowRef
from auricle.workers.encode.encoder import AudioEncoder
from auricle.workers.encode.store import EmbeddingStore, Identity
from auricle.workers.encode.worker import EncodeWorker, EncodeWorkerMetrics
from auricle.workers.pd.transformers.decoders import Decoder
from auricle_testing.checkpoints.other_models import MOST_TOKENS
from auricle_testing.slabs import content

GRID = 10_240  # samples from one decode to the next
_TENANT, _SESSION, _INSTANCE = "test", "split", 1
_SLOTS, _LEASE_SECONDS = 512, 600.0


@dataclass(frozen=True)
class Decode:
    """The embeddings of a segment up to a grid point: its windows by key, and their cost."""

    parts: tuple[tuple[str, torch.Tensor], ...]
    seconds: float
    windows: int
    blocks: int

    @property
    def embeddings(self) -> torch.Tensor:
        """The embeddings of all windows, (n, hidden_size)."""
        return torch.cat([one for _, one in self.parts])


@dataclass
class Worker:
    """An encode worker without a network."""

    checkpoint: ModelCheckpoint
    worker: EncodeWorker
    slab: Slab
    store: EmbeddingStore

    def read(self, ref: WindowRef) -> torch.Tensor:
        """Return the embeddings of a window, (length, hidden_size), and end its lease."""
        rows = torch.from_numpy(content(self.slab, ref.slot, ref.length)).view(torch.float32)
        self.store.give_back([ref])
        return rows.view(ref.length, self.checkpoint.geometry.hidden_size)


@asynccontextmanager
async def encode_worker(
    checkpoint: ModelCheckpoint, encoder: AudioEncoder, conv_blocks: int = 2048
) -> AsyncIterator[Worker]:
    """Yield a worker that runs `encoder`, in float32."""
    geometry = checkpoint.geometry
    slab = HostSlab.private(SlabLayout(geometry.hidden_size, 4, geometry.window_embeddings), _SLOTS)
    store = EmbeddingStore(slab, _LEASE_SECONDS)
    worker = EncodeWorker(
        EncodeWorkerSettings.model_validate({"dtype": "float32", "conv_blocks": conv_blocks}),
        geometry,
        encoder,
        store,
        Identity("agent", b"", checkpoint.fingerprint, "float32"),
        EncodeWorkerMetrics(CollectorRegistry(), store),
        lambda: None,
    )
    loop = asyncio.create_task(worker.run())
    try:
        yield Worker(checkpoint, worker, slab, store)
    finally:
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)
        worker.device.close()


@dataclass
class GrowingSegment:
    """A growing segment: as in a processor, an encode worker receives only the new part."""

    on: Worker
    pcm: Int16
    _sent: SentBlocks = field(default_factory=SentBlocks)
    _read: dict[str, torch.Tensor] = field(default_factory=dict)
    misses: int = 0

    def __post_init__(self) -> None:
        checkpoint = self.on.checkpoint
        scheme = KeyScheme(checkpoint.fingerprint, "float32", _TENANT)
        self._audio = SegmentAudio(checkpoint.geometry, scheme)
        self._audio.push(self.pcm)

    async def until(self, samples: int) -> Decode:
        """Encode the first `samples` samples of the segment."""
        began = time.perf_counter()
        windows = self._audio.windows(samples)
        wanted = [window for window in windows if window.key not in self._read]
        reply = await self._encode(wanted)
        for window, ref in zip(wanted, reply.windows, strict=True):
            self._read[window.key] = self.on.read(ref)
        parts = tuple((window.key, self._read[window.key]) for window in windows)
        for window in windows:
            if window.partial:
                del self._read[window.key]
        seconds = time.perf_counter() - began
        return Decode(parts, seconds, reply.encoded, reply.convolved)

    async def _encode(self, wanted: list[Window]) -> EncodeReply:
        try:
            reply = await self.on.worker.encode(self._request(wanted))
        except FeaturesMissing:
            self.misses += 1
            self._sent.forget(_INSTANCE)
            reply = await self.on.worker.encode(self._request(wanted))
        self._sent.arrived(_INSTANCE, wanted)
        return reply

    def _request(self, wanted: list[Window]) -> EncodeRequest:
        windows = self._sent.features(_INSTANCE, wanted)
        return EncodeRequest(session=_SESSION, tenant=_TENANT, windows=windows)


def greedy(
    decoder: Decoder,
    embeddings: torch.Tensor,
    head: tuple[int, ...],
    tail: tuple[int, ...],
    stops: tuple[int, ...],
) -> list[int]:
    """Return the tokens of the answer, including the one that ends it."""
    found: list[int] = greedy_logits(decoder, embeddings, head, tail, stops).argmax(1).tolist()
    return found


def greedy_logits(
    decoder: Decoder,
    embeddings: torch.Tensor,
    head: tuple[int, ...],
    tail: tuple[int, ...],
    stops: tuple[int, ...],
) -> torch.Tensor:
    """Return the logits from which each token of the answer was chosen, (tokens, vocabulary)."""
    window = embeddings.contiguous().view(torch.uint8)
    rows, cache = decoder.embedded([head, window, tail]), decoder.slot(0, 0)
    found: list[torch.Tensor] = []
    while len(found) < MOST_TOKENS and not (found and int(found[-1].argmax()) in stops):
        found.append(decoder.step(rows, cache).index_fill(0, decoder.suppressed, -torch.inf))
        rows = decoder.embedded([[int(found[-1].argmax())]])
    return torch.stack(found)
