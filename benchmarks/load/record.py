"""The record of one session at the client. Times are seconds of one monotonic clock."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.load.plan import SessionPlan


@dataclass(frozen=True)
class TextEvent:
    """Text arrived: `committed` and `partial` of one segment, or its final text.

    `covered` is the position in the session's audio (seconds) up to which the text goes, and
    `begins` the start of its segment; None if the protocol does not report it.
    """

    at: float
    segment: int
    committed: str
    partial: str
    final: bool
    covered: float | None
    begins: float | None = None


@dataclass
class Record:
    """One session, from connecting to its end.

    `outcome` is `done`, `refused` (with `retry_after`, seconds), `failed`, or `unfinished`
    while neither is known. `sent_at[i]` is when packet i was handed to the socket,
    `due_at[i]` when it was due.
    """

    plan: SessionPlan
    packet_seconds: float
    began: float
    outcome: str = "unfinished"
    reason: str = ""
    retry_after: float = 0.0
    ended: float = 0.0
    stopped_at: float = 0.0
    finished_at: float = 0.0
    due_at: list[float] = field(default_factory=list)
    sent_at: list[float] = field(default_factory=list)
    events: list[TextEvent] = field(default_factory=list)
    text: str = ""
    # The cadence that the server announced when the session began, if it did.
    chunk_seconds: float | None = None

    def due(self, seconds: float) -> float:
        """When the packet with that second of audio was due to be sent.

        This is not when it was sent: delays of the client are counted separately, and a server
        must not profit from its backpressure.
        """
        at = min(int(max(seconds - 1e-6, 0.0) / self.packet_seconds), len(self.due_at) - 1)
        return self.due_at[at]

    def finals(self) -> list[str]:
        """Return the final texts by segment."""
        return [event.committed for event in self.events if event.final]


class Refused(Exception):
    """The server refused the session, as it has no capacity now."""

    def __init__(self, reason: str, retry_after: float) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class Failed(Exception):
    """The session failed."""
