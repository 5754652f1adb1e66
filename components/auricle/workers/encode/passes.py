"""One pass of the encoder: features of a batch in, embeddings in published slots out."""

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

_SILENCE = -10.0  # log-mel of silence
# Windows of live sessions in seconds: kernels are chosen and planned per shape of a pass.
_SHORTER = (0.24, 0.48, 0.72)


def warm_up(encoder: AudioEncoder, geometry: Geometry, most_windows: int) -> None:
    """Run the passes of live sessions in advance (encoder's thread); on a CPU, one window.

    Raises whatever the device raises.
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
        _check(torch.isfinite(embeddings).all())


def _check(finite: torch.Tensor) -> None:
    """Raise AuricleError unless `finite`, which must be complete, is True."""
    if not bool(finite):
        raise AuricleError("the encoder produced values that are not finite")


@dataclass
class EncodeJob:
    """A window, and the cached output or None of each block.

    With `attends` False, only the conv stack runs. The event loop sets `withdrawn` while no request
    waits for the window.
    """

    window: WindowFeatures
    outputs: list[BlockOutput | None]
    attends: bool = True
    trace: str = ""
    submitted: float = 0.0  # monotonic seconds
    withdrawn: bool = False

    def find(self, kept: Callable[[str], BlockOutput | None]) -> None:
        """Look up blocks without features again."""
        for at, block in enumerate(self.window.blocks):
            if block.log_mel is None and self.outputs[at] is None:
                self.outputs[at] = kept(block.key)


# A job's result: the window's slot, the reason why it has none, or None if it needs none.
Stored = Reservation | Overloaded | FeaturesMissing | None


@dataclass(frozen=True)
class Passed:
    """The result of each job, and the new conv outputs by block key."""

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

        A window without a slot is not encoded, which does not affect the others. A pass ends early,
        without slots, once all its jobs are withdrawn. Raises whatever the device raises, after
        abandoning all reservations.
        """
        stored: list[Stored] = []
        convolved: dict[str, BlockOutput] = {}
        new = self._new_blocks(jobs)
        self._encoder.between_layers = partial(_raise_if_withdrawn, jobs)
        try:
            for job in jobs:
                stored.append(self._lacking(job, new) or self._reserved(job))
            convolved = self._convolve(new)
            self._attend(jobs, stored, convolved)
        except BaseException as error:
            self._store.abandon(one for one in stored if isinstance(one, Reservation))
            if not isinstance(error, PassWithdrawn):
                raise
            stored = [None] * len(jobs)
        finally:
            self._encoder.between_layers = do_nothing
        return Passed(stored, convolved)

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
        blocks = zip(job.window.blocks, job.outputs, strict=True)
        keys = tuple(b.key for b, output in blocks if output is None and b.key not in new)
        return FeaturesMissing(keys) if keys else None

    def _new_blocks(self, jobs: Sequence[EncodeJob]) -> dict[str, MelBlock]:
        """Return the blocks to compute, by key, each with its predecessor in the window."""
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
        # Everything is queued on the device, the check included, and synchronized once.
        finite = torch.isfinite(torch.cat(list(embeddings))).all().to("cpu", non_blocking=True)
        self._store.publish(list(zip(reserved, embeddings, strict=True)), lambda: _check(finite))


def _payloads(embeddings: Sequence[torch.Tensor]) -> list[Bytes]:
    """Return the bytes of each window's embeddings on the host, with one check and one copy."""
    together = torch.cat(list(embeddings))
    _check(torch.isfinite(together).all())
    flat: Bytes = together.cpu().view(torch.uint8).numpy().reshape(-1)
    sizes = [one.numel() * one.element_size() for one in embeddings]
    return np.split(flat, np.cumsum(sizes)[:-1])
