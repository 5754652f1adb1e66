"""Passes of the aligner over a batch of segments with embeddings in the landing slab."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from auricle.checkpoints.files import ModelCheckpoint
from auricle.embeddings.slab import Slab
from auricle.embeddings.slots import SlotRef
from auricle.workers.align.cross_attention import CrossAttentionAligner
from auricle.workers.align.forced import ForcedAligner
from auricle.workers.align.utterances import Utterance

Aligner = ForcedAligner | CrossAttentionAligner


def aligner_for(checkpoint: ModelCheckpoint, dtype: str, device: str, threads: int) -> Aligner:
    """Load a checkpoint's aligner. Raises CheckpointError if its weights do not match."""
    if checkpoint.architecture.audio == "cross_attention":
        return CrossAttentionAligner(checkpoint, dtype, device, threads)
    return ForcedAligner(checkpoint, dtype, device, threads)


@dataclass(frozen=True)
class AlignJob:
    """A segment to align: its pinned windows, the token ids after them, and its length.

    The text begins after `lead` tokens.
    """

    windows: tuple[SlotRef, ...]
    after: tuple[int, ...]
    lead: int = 0
    audio_ms: int = 0

    @property
    def tokens(self) -> int:
        return 1 + sum(window.length for window in self.windows) + len(self.after)


class AlignerPass:
    """Runs jobs on the aligner. Call it from the thread that owns the aligner."""

    def __init__(self, aligner: Aligner, slab: Slab, dtype: torch.dtype, most_tokens: int) -> None:
        """A pass has at most `most_tokens`, padding included."""
        self._aligner = aligner
        self._slab = slab
        self._dtype = dtype
        self._most = most_tokens

    def run(self, jobs: Sequence[AlignJob]) -> list[list[int]]:
        """Return the aligner's marks of each job. Raises whatever the device raises."""
        found: list[list[int]] = [[] for _ in jobs]
        for rows in fitting([job.tokens for job in jobs], self._most):
            utterances = [
                Utterance(self._audio(job.windows), job.after, job.lead, job.audio_ms)
                for job in (jobs[row] for row in rows)
            ]
            for row, marks in zip(rows, self._aligner.marks(utterances), strict=True):
                found[row] = marks
        return found

    def _audio(self, windows: Sequence[SlotRef]) -> torch.Tensor:
        gathered = self._slab.gather([(window.slot, window.length) for window in windows])
        self._slab.synchronize()
        width = self._slab.layout.width
        rows = [torch.as_tensor(one).view(self._dtype).view(-1, width) for one in gathered]
        return self._aligner.joined(rows)


def fitting(lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Divide rows of these lengths into passes of at most `most`, padded to the longest row.

    Rows of similar length share a pass. A longer row takes a pass alone.
    """
    rows: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda one: lengths[one]):
        if rows and (len(rows) + 1) * lengths[row] > most:
            yield rows
            rows = []
        rows.append(row)
    if rows:
        yield rows
