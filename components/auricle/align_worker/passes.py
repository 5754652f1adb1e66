"""Passes of the aligner over a batch of segments whose embeddings lie in the landing slab."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from auricle.align_worker.aligners import Aligner
from auricle.align_worker.utterances import Utterance
from auricle.embeddings.slab import Slab
from auricle.landing.placed import PlacedWindow


@dataclass(frozen=True)
class Job:
    """A segment to align: its pinned windows, the token ids after its audio, of which the first
    `lead` are no text, and its length.
    """

    windows: tuple[PlacedWindow, ...]
    after: tuple[int, ...]
    lead: int = 0
    audio_ms: int = 0

    @property
    def tokens(self) -> int:
        """The length of its prompt."""
        return 1 + sum(window.length for window in self.windows) + len(self.after)


class AlignerPass:
    """Runs jobs on the aligner. Call it from the thread that owns the aligner."""

    def __init__(self, aligner: Aligner, slab: Slab, dtype: torch.dtype, most_tokens: int) -> None:
        """A pass has at most `most_tokens`, those that fill up shorter segments included."""
        self._aligner = aligner
        self._slab = slab
        self._dtype = dtype
        self._most = most_tokens

    def run(self, jobs: Sequence[Job]) -> list[list[int]]:
        """Return the aligner's marks of each job. Raises whatever the device raises."""
        found: list[list[int]] = [[] for _ in jobs]
        for rows in fitting([job.tokens for job in jobs], self._most):
            utterances = [self._utterance(jobs[row]) for row in rows]
            for row, marks in zip(rows, self._aligner.marks(utterances), strict=True):
                found[row] = marks
        return found

    def _utterance(self, job: Job) -> Utterance:
        return Utterance(self._audio(job.windows), job.after, job.lead, job.audio_ms)

    def _audio(self, windows: Sequence[PlacedWindow]) -> torch.Tensor:
        gathered = self._slab.gather([(window.slot, window.length) for window in windows])
        self._slab.settle()
        width = self._slab.layout.width
        rows = [torch.as_tensor(one).view(self._dtype).view(-1, width) for one in gathered]
        return self._aligner.joined(rows)


def fitting(lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Divide rows of such lengths into passes of at most `most`, filled up to the longest row.

    Rows of about one length come together. A row that is too long alone is a pass of its own.
    """
    rows: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda one: lengths[one]):
        if rows and (len(rows) + 1) * lengths[row] > most:
            yield rows
            rows = []
        rows.append(row)
    if rows:
        yield rows
