"""Records of load sessions whose answers are known."""

from __future__ import annotations

import numpy as np

from benchmarks.load.plan import SessionPlan
from benchmarks.load.record import Record, TextEvent
from benchmarks.speech import Word

WORDS = (Word("good", 0.1, 0.4), Word("morning", 0.5, 0.9), Word("all", 1.0, 1.2))


def record(*events: TextEvent, outcome: str = "done", speech: float = 1.4) -> Record:
    """1.5 s of audio in packets of 100 ms, due from second 100 on and sent in time."""
    plan = SessionPlan("s", np.zeros(24_000, np.int16), WORDS, ((0.0, speech),))
    due = [100.1 + 0.1 * i for i in range(15)]
    text = " ".join(e.committed for e in events if e.final)
    return Record(
        plan, 0.1, 100.0, outcome=outcome, stopped_at=101.5, finished_at=101.7,
        due_at=due, sent_at=list(due), events=list(events), text=text,
    )  # fmt: skip


def partial(at: float, committed: str, shown: str, covered: float | None = None) -> TextEvent:
    return TextEvent(at, 0, committed, shown, False, covered)


def final(at: float, text: str, covered: float | None = None, segment: int = 0) -> TextEvent:
    return TextEvent(at, segment, text, "", True, covered)


def served(stop: float = 0.2, lag: float = 0.2) -> Record:
    events = [partial(100.1 + 0.1 * i + lag, "", "x", 0.1 * (i + 1)) for i in range(14)]
    subject = record(*events, final(101.5 + stop, "good morning all", 1.5))
    subject.finished_at = 101.5 + stop
    return subject
