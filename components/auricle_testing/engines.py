"""An engine of a PD worker; its slab holds the windows of the bundled recordings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import torch

from auricle.audio.pcm import to_int16
from auricle.checkpoints.files import ModelCheckpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.config.settings import EncodeWorkerSettings
from auricle.embeddings.layout import ITEM_BYTES, SlabLayout
from auricle.embeddings.slab import Slab
from auricle.embeddings.slots import SlotRef
from auricle.processor.session.windows import KeyScheme, SegmentAudio
from auricle.workers.encode.encoder import AudioEncoder, MelWindow
from auricle.workers.encode.main import encoder_for
from auricle.workers.pd.engine import Decoded, Engine, GenerateRequest
from auricle_testing import recordings
from auricle_testing.server import ROOT
from auricle_testing.slabs import slab_in

MODEL = ROOT / "models/demo"
_GRID = 10_240  # samples between two decodes
Windows = dict[str, tuple[SlotRef, ...]]
E = TypeVar("E", bound=Engine)


@dataclass
class Bench(Generic[E]):
    """An engine, and the windows in its slab by recording."""

    engine: E
    prompt: PromptFormat
    windows: Windows
    requests: int = 0

    async def decode(
        self,
        name: str,
        draft: Sequence[int] = (),
        *,
        context: str = "",
        prefix: Sequence[int] = (),
        max_tokens: int = 80,
        reusable_windows: int | None = 0,
        tenant: str = "test",
        priority: int = 1,
        logprobs: bool = False,
        allowed: Sequence[int] = (),
    ) -> Decoded:
        self.requests += 1
        return await self.engine.generate(
            GenerateRequest(
                f"request-{self.requests}",
                self.prompt.head(context),
                self.windows[name],
                (*self.prompt.tail(None), *prefix),
                self.prompt.stop_tokens,
                max_tokens,
                priority=priority,
                tenant=tenant,
                draft=draft,
                reusable_windows=reusable_windows,
                logprobs=logprobs,
                allowed=allowed,
            )
        )


def landing_slab(checkpoint: ModelCheckpoint, kind: str, count: int = 64) -> Slab:
    """An empty slab for float32 embeddings, in memory of a `kind` from `slabs.py`."""
    geometry = checkpoint.geometry
    layout = SlabLayout(geometry.hidden_size, ITEM_BYTES["float32"], geometry.window_embeddings)
    return slab_in(kind, layout, count)


def _encoder(checkpoint: ModelCheckpoint) -> AudioEncoder:
    values = {"model": checkpoint.path, "dtype": "float32"}
    return encoder_for(checkpoint, EncodeWorkerSettings.model_validate(values))


def encoded(
    encoder: AudioEncoder, audio: SegmentAudio, samples: int
) -> list[tuple[str, np.ndarray]]:
    """Key and embeddings (as bytes) of each window of the first `samples`."""
    found = []
    for window in audio.windows(samples):
        (embeddings,) = encoder.encode([MelWindow(window.frames, window.floor)])
        payload = embeddings.contiguous().view(torch.uint8).numpy().reshape(-1)
        found.append((window.key, payload))
    return found


def with_recordings(checkpoint: ModelCheckpoint, slab: Slab) -> Windows:
    """Encode all bundled recordings into the first slots of `slab`, each window once."""
    encoder = _encoder(checkpoint)
    windows: Windows = {}
    slot = 0
    for name in recordings.NAMES:
        pcm = to_int16(recordings.samples(name))
        audio = SegmentAudio(
            checkpoint.geometry, KeyScheme(checkpoint.fingerprint, "float32", "test")
        )
        audio.push(pcm)
        placed = []
        for key, payload in encoded(encoder, audio, len(pcm)):
            slab.write(slot, key, 1, payload)
            placed.append(SlotRef(key, slot, 1, payload.nbytes // slab.layout.row_bytes))
            slot += 1
        windows[name] = tuple(placed)
    return windows


def growing(checkpoint: ModelCheckpoint, slab: Slab, recording: str, slot: int) -> Windows:
    """The windows of a growing segment at each decode, by name; their slots begin at `slot`."""
    encoder = _encoder(checkpoint)
    pcm = to_int16(recordings.samples(recording))
    audio = SegmentAudio(checkpoint.geometry, KeyScheme(checkpoint.fingerprint, "float32", "grow"))
    audio.push(pcm)
    placed: dict[str, SlotRef] = {}
    windows: Windows = {}
    for offset in range(_GRID, len(pcm), _GRID):
        found = encoded(encoder, audio, offset)
        for key, payload in found:
            if key not in placed:
                slab.write(slot, key, 1, np.ascontiguousarray(payload))
                length = payload.nbytes // slab.layout.row_bytes
                placed[key] = SlotRef(key, slot, 1, length)
                slot += 1
        windows[f"{recording} up to {offset}"] = tuple(placed[key] for key, _ in found)
    return windows
