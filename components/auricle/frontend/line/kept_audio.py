"""A session's audio whose text is not final yet, and which part of it was sent. No I/O.

The processor says how much audio it needs before it can do any work. Less than that is not
worth a request and is buffered here, unless it ends in a pause or an endpoint.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from auricle.audio.constants import SAMPLE_RATE
from auricle.frontend.listening.pieces import FeaturePiece, Piece

_LARGEST = 10 * SAMPLE_RATE  # most samples in one push


class KeptAudio:
    """A session's pieces in order: first those its processor has received, then the others.

    `unsent` is the number of samples (16 kHz) that the processor has not received.
    """

    def __init__(self) -> None:
        self.unsent = 0
        self._sent: deque[Piece | FeaturePiece] = deque()
        self._waiting: deque[Piece | FeaturePiece] = deque()
        # Waiting pieces that are sent at once: those with a boundary, and packets of features.
        self._urgent = 0
        self._wanted = 1
        self._final_before = 0  # session sample up to which text is final
        self._between = True  # nothing was added yet, or the last piece ended in an endpoint
        self._again = False  # everything kept must be sent to another processor

    def add(self, piece: Piece | FeaturePiece) -> None:
        """Append the next piece, split so that no push holds more than 10 s."""
        self._between = piece.boundary == "endpoint"
        if isinstance(piece, FeaturePiece):
            self._wait(piece)
            return
        cuts = range(0, max(len(piece.pcm), 1), _LARGEST)
        for at in cuts:
            boundary = piece.boundary if at == cuts[-1] else "none"
            self._wait(Piece(piece.start + at, piece.pcm[at : at + _LARGEST], boundary))

    def want(self, samples: int) -> None:
        """The processor has work to do once it has `samples` more."""
        self._wanted = samples

    @property
    def ready(self) -> bool:
        """Whether the waiting pieces are worth a push now."""
        if not self._waiting:
            return False
        return self._again or self._urgent > 0 or self.unsent >= self._wanted

    @property
    def missing(self) -> int:
        """Samples that must still be added before the processor has work to do."""
        return max(0, self._wanted - self.unsent)

    def next(self, *, all_of_it: bool = True) -> Piece | FeaturePiece | None:
        """Return the piece to send now, or None. Adjacent waiting pieces are joined.

        Returns the same piece until `sent`. Without `all_of_it`, returns None unless `ready`.
        """
        if not self._waiting or not (all_of_it or self.ready):
            return None
        self._join_waiting()
        return self._waiting[0]

    def whole(self) -> Piece | None:
        """Return everything kept as one piece, or None if one push cannot hold it.

        It is then kept as not sent: another processor owns the session now.
        """
        self.send_again()
        piece = self.next()
        return piece if isinstance(piece, Piece) and len(self._waiting) == 1 else None

    def sent(self) -> None:
        """The processor has received the piece that `next` returned."""
        piece = self._waiting.popleft()
        self._count(piece, -1)
        self._sent.append(piece)
        self._again = self._again and bool(self._waiting)

    def forget_before(self, sample: int) -> None:
        """The text before session sample `sample` is final: forget the audio it came from.

        Pieces that were not sent yet are kept, boundaries included.
        """
        if sample > self._final_before:
            self._final_before = sample
            if not self._between:
                # A segment has begun since the processor said how much it wants, so that number
                # no longer applies: send again at once, which is answered by a new one.
                self._wanted = 1
        while self._sent and self._sent[0].end <= sample:
            self._sent.popleft()
        pieces = self._sent or self._waiting
        first = pieces[0] if pieces else None
        if isinstance(first, Piece) and first.start < sample < first.end:
            # A copy: a slice would keep the whole piece's memory alive.
            pieces[0] = Piece(sample, first.pcm[sample - first.start :].copy(), first.boundary)
            if pieces is self._waiting:
                self.unsent -= sample - first.start

    def send_again(self) -> None:
        """Mark everything kept as not sent, because another processor owns the session now."""
        for piece in reversed(self._sent):
            self._waiting.appendleft(piece)
            self._count(piece, 1)
        self._sent.clear()
        self._again = True

    def _wait(self, piece: Piece | FeaturePiece) -> None:
        self._waiting.append(piece)
        self._count(piece, 1)

    def _count(self, piece: Piece | FeaturePiece, sign: int) -> None:
        self.unsent += sign * (piece.end - piece.start)
        self._urgent += sign * (isinstance(piece, FeaturePiece) or piece.boundary != "none")

    def _join_waiting(self) -> None:
        """Join the pieces at the head, up to a boundary, a gap, or the size of one push."""
        first = self._waiting.popleft()
        if isinstance(first, FeaturePiece):
            self._waiting.appendleft(first)
            return
        parts, end, boundary = [first.pcm], first.end, first.boundary
        while boundary == "none" and self._waiting:
            following = self._waiting[0]
            if not isinstance(following, Piece) or following.start != end:
                break
            if following.end - first.start > _LARGEST:
                break
            self._waiting.popleft()
            parts.append(following.pcm)
            end, boundary = following.end, following.boundary
        pcm = first.pcm if len(parts) == 1 else np.concatenate(parts)
        self._waiting.appendleft(Piece(first.start, pcm, boundary))
