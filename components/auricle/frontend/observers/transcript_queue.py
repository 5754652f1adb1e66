"""The transcripts that wait for NATS. No I/O."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True)
class QueuedMessage:
    """One message: its subject, the id by which the stream discards duplicates, its JSON."""

    subject: str
    identity: str
    data: bytes


class TranscriptQueue:
    """First in, first out. At most `limit` messages wait besides the one being sent."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: deque[QueuedMessage] = deque()
        self._sending: QueuedMessage | None = None

    def __len__(self) -> int:
        return len(self._waiting) + (self._sending is not None)

    def put(self, message: QueuedMessage) -> bool:
        """Append a message. If the queue is full, drop the oldest one and return False.

        The one being sent is not dropped: it may be in the stream already.
        """
        full = len(self._waiting) >= self._limit
        if full:
            self._waiting.popleft()
        self._waiting.append(message)
        return not full

    def first(self) -> QueuedMessage | None:
        """Return the message to send: the same one until `done` is called."""
        if self._sending is None and self._waiting:
            self._sending = self._waiting.popleft()
        return self._sending

    def done(self) -> None:
        """The first message is in the stream, or can never be."""
        self._sending = None
