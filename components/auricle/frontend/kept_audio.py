"""The audio of a session whose text is not final yet, and what of it has been sent. Pure.

The processor decodes at points of a grid that begins with each segment. Audio short of the
next point would only cost a request, so it waits here until it reaches one, or its end; or,
where points are far apart, until a second is finished that can be encoded ahead.
"""

from __future__ import annotations

import numpy as np

from auricle.audio.mel import SAMPLE_RATE, SETTLED
from auricle.frontend.endpointing import FeaturePiece, Piece

_LARGEST = 10 * SAMPLE_RATE  # samples of one push


class KeptAudio:
    """Pieces in order; those before `_next` were sent to the processor that has the session."""

    def __init__(self, grid: int = 1) -> None:
        """`grid`: samples between two decodes."""
        self._pieces: list[Piece | FeaturePiece] = []
        self._next = 0
        self._grid = grid
        # As far as is known: a processor may have cut the segment meanwhile. Then one push
        # or two come up to a chunk late.
        self._segment_start = 0
        self._between = True  # nothing added yet, or the last piece was an endpoint
        self._again = False  # another processor is to get what there is

    @property
    def unsent(self) -> int:
        """Samples not sent yet."""
        return sum(piece.end - piece.start for piece in self._pieces[self._next :])

    def add(self, piece: Piece | FeaturePiece) -> None:
        """The next piece; a large one is cut to what one push may carry."""
        if self._between:
            self._segment_start = piece.start
        self._between = piece.boundary == "endpoint"
        if isinstance(piece, FeaturePiece):
            self._pieces.append(piece)
            return
        cuts = range(0, max(len(piece.pcm), 1), _LARGEST)
        for at in cuts:
            boundary = piece.boundary if at == cuts[-1] else "none"
            pcm = piece.pcm[at : at + _LARGEST]
            self._pieces.append(Piece(piece.start + at, pcm, boundary))

    @property
    def ready(self) -> bool:
        """Whether what waits is worth sending now."""
        waiting = self._pieces[self._next :]
        if not waiting:
            return False
        if self._again or any(isinstance(p, FeaturePiece) or p.boundary != "none" for p in waiting):
            return True
        since, until = (at - self._segment_start for at in (waiting[0].start, waiting[-1].end))
        if self._grid > SAMPLE_RATE and _passes(
            max(since - SETTLED, 0), until - SETTLED, SAMPLE_RATE
        ):
            return True
        return _passes(since, until, self._grid)

    def next(self, *, all_of_it: bool = True) -> Piece | FeaturePiece | None:
        """What to send now: pieces that wait are sent together.

        Without `all_of_it` only what is `ready`.
        """
        if self._next == len(self._pieces) or not (all_of_it or self.ready):
            return None
        if isinstance(first := self._pieces[self._next], FeaturePiece):
            return first
        self._join_waiting()
        return self._pieces[self._next]

    def _join_waiting(self) -> None:
        waiting = [p for p in self._pieces[self._next :] if isinstance(p, Piece)]
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

    def sent(self) -> None:
        """The piece `next` returned has arrived."""
        self._next += 1
        self._again = self._again and self._next < len(self._pieces)

    def forget_before(self, sample: int) -> None:
        """Text up to `sample` is final. What was not sent yet stays, boundaries included."""
        self._segment_start = max(self._segment_start, sample)
        gone = 0
        while gone < self._next and self._pieces[gone].end <= sample:
            gone += 1
        self._next -= gone
        self._pieces = self._pieces[gone:]
        first = self._pieces[0] if self._pieces else None
        if isinstance(first, Piece) and first.start < sample < first.end:
            # A copy: a slice would keep the whole piece's memory alive.
            pcm = first.pcm[sample - first.start :].copy()
            self._pieces[0] = Piece(sample, pcm, first.boundary)

    def send_again(self) -> None:
        """Another processor has the session: everything kept is news to it."""
        self._next = 0
        self._again = True


def _passes(since: int, until: int, grid: int) -> bool:
    """Whether a point of the grid lies after `since`, up to `until`."""
    return since // grid < until // grid
