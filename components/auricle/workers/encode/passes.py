"""One pass of the encoder: from the features of a batch to embeddings in published slots."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from auricle.checkpoints.geometry import Geometry
from auricle.core.errors import AuricleError, FeaturesMissing, Overloaded
from auricle.embeddings.layout import Bytes
from auricle.protocol.recognition import WindowFeatures
from auricle.workers.encode.encoder import (
    AudioEncoder,
    BlockOutput,
    MelBlock,
    MelWindow,
    do_nothing,
)
from auricle.workers.encode.store import EmbeddingStore, Reservation

# A pass over silence: warms the encoder up, and tells a broken device from a bad job.

_SILENCE = -10.0  # its log-mel
# Of windows of live sessions, in seconds: kernels are chosen and planned for each shape of a pass.
_SHORTER = (0.24, 0.48, 0.72)


def warm_up(encoder: AudioEncoder, geometry: Geometry, most_windows: int) -> None:
    """Run what live sessions will run, before the first of them comes (encoder's thread).

    On a CPU a window will do. Raises whatever the device raises.
    """
    encoder.prepare()
    encode_silence(encoder, geometry)
    if not encoder.on_gpu:
        return
    counts = [1 << power for power in range(most_windows.bit_length())]
    for count in sorted({*counts, most_windows}):
        for frames in (*(round(100 * seconds) for seconds in _SHORTER), geometry.window_frames):
            silence = np.full((frames, geometry.mel_bins), _SILENCE, np.float32)
            encoder.encode([MelWindow(silence, _SILENCE)] * count)


def encode_silence(encoder: AudioEncoder, geometry: Geometry) -> None:
    """Encode one window of silence (encoder's thread). Raises whatever the device raises."""
    silence = np.full((geometry.window_frames, geometry.mel_bins), _SILENCE, np.float32)
    for embeddings in encoder.encode([MelWindow(silence, _SILENCE)]):
        check_finite(embeddings)


def check_finite(embeddings: torch.Tensor) -> None:
    """Raise AuricleError unless all values are finite."""
    refuse_unless(bool(torch.isfinite(embeddings).all()))


def refuse_unless(finite: bool) -> None:
    """Raise AuricleError unless all values were found to be finite."""
    if not finite:
        raise AuricleError("the encoder produced values that are not finite")


@dataclass
class EncodeJob:
    """A window and what is kept, or None, of each of its blocks.

    A job with `attends` False runs the conv stack only. The event loop sets `withdrawn` while no
    request waits for the window.
    """

    window: WindowFeatures
    outputs: list[BlockOutput | None]
    attends: bool = True
    trace: str = ""
    submitted: float = 0.0  # monotonic seconds
    withdrawn: bool = False

    def find(self, kept: Callable[[str], BlockOutput | None]) -> None:
        """Look once more for blocks that came without features."""
        for at, block in enumerate(self.window.blocks):
            if block.log_mel is None and self.outputs[at] is None:
                self.outputs[at] = kept(block.key)


# What became of a job: its window's slot, why there was none for it, or None if it had no need.
Stored = Reservation | Overloaded | FeaturesMissing | None


@dataclass(frozen=True)
class Passed:
    """What a pass did: what became of each job, and the new conv outputs by block key."""

    stored: list[Stored]
    convolved: dict[str, BlockOutput]


class PassWithdrawn(Exception):
    """No request waits for any window of the pass."""


def _raise_if_withdrawn(jobs: Sequence[EncodeJob]) -> None:
    if all(job.withdrawn for job in jobs):
        raise PassWithdrawn


class EncoderPass:
    """Runs batches of jobs; for the encoder's thread only."""

    def __init__(self, encoder: AudioEncoder, store: EmbeddingStore, geometry: Geometry) -> None:
        self._encoder = encoder
        self._store = store
        self._geometry = geometry

    def run(self, jobs: Sequence[EncodeJob]) -> Passed:
        """Convolve each new block once, then encode all windows at once and publish them.

        A window for which there is no slot is not encoded, and disturbs no other. A pass whose jobs
        have all been withdrawn ends early, without slots. Raises whatever the device raises; no
        slot is reserved then.
        """
        stored: list[Stored] = []
        convolved: dict[str, BlockOutput] = {}
        new = self._new_blocks(jobs)
        self._encoder.checkpoint = partial(_raise_if_withdrawn, jobs)
        try:
            for job in jobs:
                stored.append(self._lacking(job, new) or self._reserved(job))
            convolved = self._convolve(new)
            self._attend(jobs, stored, convolved)
        except PassWithdrawn:
            self._abandon(stored)
            stored = [None] * len(jobs)
        except BaseException:
            self._abandon(stored)
            raise
        finally:
            self._encoder.checkpoint = do_nothing
        return Passed(stored, convolved)

    def _abandon(self, stored: Sequence[Stored]) -> None:
        self._store.abandon(one for one in stored if isinstance(one, Reservation))

    def _reserved(self, job: EncodeJob) -> Stored:
        if not job.attends or job.withdrawn:
            return None
        window = job.window
        try:
            return self._store.reserve(
                window.key,
                self._geometry.embeddings(window.frames),
                partial=window.partial,
                supersedes=window.supersedes,
                now=time.monotonic(),
            )
        except Overloaded as error:
            return error

    def _lacking(self, job: EncodeJob, new: Mapping[str, MelBlock]) -> FeaturesMissing | None:
        """Return that a job's blocks were evicted since it was submitted; None if they were not."""
        blocks = zip(job.window.blocks, job.outputs, strict=True)
        keys = tuple(b.key for b, output in blocks if output is None and b.key not in new)
        return FeaturesMissing(keys) if keys else None

    def _new_blocks(self, jobs: Sequence[EncodeJob]) -> dict[str, MelBlock]:
        """Return the blocks to compute, by key: each after what is before it in its window."""
        new: dict[str, MelBlock] = {}
        for job in jobs:
            before: MelBlock | BlockOutput | None = None
            for block, output in zip(job.window.blocks, job.outputs, strict=True):
                if output is None and block.log_mel is not None and block.key not in new:
                    values = np.frombuffer(block.log_mel, np.float32)
                    frames = values.reshape(block.frames, self._geometry.mel_bins)
                    new[block.key] = MelBlock(frames, job.window.floor, before)
                before = new.get(block.key) if output is None else output
        return new

    def _convolve(self, new: Mapping[str, MelBlock]) -> dict[str, BlockOutput]:
        if not new:
            return {}
        return dict(zip(new, self._encoder.convolve(list(new.values())), strict=True))

    def _attend(
        self, jobs: Sequence[EncodeJob], stored: Sequence[Stored], convolved: dict[str, BlockOutput]
    ) -> None:
        reserved: list[Reservation] = []
        windows: list[list[BlockOutput]] = []
        for job, one in zip(jobs, stored, strict=True):
            if not isinstance(one, Reservation):
                continue
            reserved.append(one)
            blocks = list(zip(job.window.blocks, job.outputs, strict=True))[job.window.context :]
            windows.append([convolved[b.key] if out is None else out for b, out in blocks])
        if reserved:
            embeddings = self._encoder.attend(windows)
            self._publish(reserved, embeddings)

    def _publish(self, reserved: Sequence[Reservation], embeddings: Sequence[torch.Tensor]) -> None:
        if not self._store.on_device:
            self._store.publish(list(zip(reserved, _payloads(embeddings), strict=True)))
            return
        # All is queued on the device, what the check is about included, and waited for once.
        finite = torch.isfinite(torch.cat(list(embeddings))).all().to("cpu", non_blocking=True)
        self._store.publish(
            list(zip(reserved, embeddings, strict=True)), lambda: refuse_unless(bool(finite))
        )


def _payloads(embeddings: Sequence[torch.Tensor]) -> list[Bytes]:
    """Return the bytes of each window's embeddings, on the host: one check and copy for all."""
    together = torch.cat(list(embeddings))
    check_finite(together)
    flat: Bytes = together.cpu().view(torch.uint8).numpy().reshape(-1)
    sizes = [one.numel() * one.element_size() for one in embeddings]
    return np.split(flat, np.cumsum(sizes)[:-1])
