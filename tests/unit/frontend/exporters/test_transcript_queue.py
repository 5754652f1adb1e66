"""The queue of transcripts for NATS: bounded, and in order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle.frontend.exporters.nats import QueuedMessage, TranscriptQueue

pytestmark = pytest.mark.unit


def message(number: int) -> QueuedMessage:
    return QueuedMessage("subject", str(number), b"{}")


def test_a_full_queue_drops_its_oldest_message_but_not_the_one_being_sent() -> None:
    queue = TranscriptQueue(2)
    queue.put(message(0))
    assert queue.first() == message(0)
    assert [queue.put(message(number)) for number in (1, 2, 3)] == [True, True, False]
    assert queue.first() == message(0)
    sent = []
    while (first := queue.first()) is not None:
        sent.append(first)
        queue.done()
    assert sent == [message(0), message(2), message(3)]


@given(st.integers(1, 4), st.lists(st.sampled_from(["put", "first", "done"])))
def test_messages_leave_in_order_and_each_is_sent_or_dropped_once(
    limit: int, steps: list[str]
) -> None:
    queue, put, sent, dropped = TranscriptQueue(limit), 0, [], 0
    for step in steps:
        if step == "put":
            dropped += not queue.put(message(put))
            put += 1
        elif step == "first" or queue.first() is None:
            queue.first()
        else:
            sent.append(queue.first())
            queue.done()
        assert len(queue) <= limit + 1
    assert len(sent) + dropped + len(queue) == put
    numbers = [int(one.identity) for one in sent if one]
    assert numbers == sorted(set(numbers))
