"""The audio of a session whose text is not final yet, and what of it has been sent. Pure."""

from __future__ import annotations

import numpy as np

from auricle.audio.mel import SAMPLE_RATE
from auricle.frontend.endpointing import Piece

_LARGEST = 10 * SAMPLE_RATE  # samples of one push


class KeptAudio:
    """Pieces in order; those before `_next` were sent to the processor that has the session."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []
        self._next = 0

    @property
    def unsent(self) -> int:
        """Samples not sent yet."""
        return sum(len(piece.pcm) for piece in self._pieces[self._next :])

    def add(self, piece: Piece) -> None:
        """The next piece; a large one is cut to what one push may carry."""
        cuts = range(0, max(len(piece.pcm), 1), _LARGEST)
        for at in cuts:
            boundary = piece.boundary if at == cuts[-1] else "none"
            pcm = piece.pcm[at : at + _LARGEST]
            self._pieces.append(Piece(piece.start + at, pcm, boundary))

    def next(self) -> Piece | None:
        """What to send now: small pieces that wait are sent together."""
        waiting = self._pieces[self._next :]
        if not waiting:
            return None
        count, total = 1, len(waiting[0].pcm)
        while (
            count < len(waiting)
            and waiting[count - 1].boundary == "none"
            and waiting[count - 1].end == waiting[count].start
            and total + len(waiting[count].pcm) <= _LARGEST
        ):
            total += len(waiting[count].pcm)
            count += 1
        if count > 1:
            joined = Piece(
                waiting[0].start,
                np.concatenate([piece.pcm for piece in waiting[:count]]),
                waiting[count - 1].boundary,
            )
            self._pieces[self._next : self._next + count] = [joined]
        return self._pieces[self._next]

    def sent(self) -> None:
        """The piece `next` returned has arrived."""
        self._next += 1

    def forget_before(self, sample: int) -> None:
        """Text up to `sample` is final. What was not sent yet stays, boundaries included."""
        gone = 0
        while gone < self._next and self._pieces[gone].end <= sample:
            gone += 1
        self._next -= gone
        self._pieces = self._pieces[gone:]
        if self._pieces and self._pieces[0].start < sample < self._pieces[0].end:
            first = self._pieces[0]
            # A copy: a slice would keep the whole piece's memory alive.
            pcm = first.pcm[sample - first.start :].copy()
            self._pieces[0] = Piece(sample, pcm, first.boundary)

    def send_again(self) -> None:
        """Another processor has the session: everything kept is news to it."""
        self._next = 0
