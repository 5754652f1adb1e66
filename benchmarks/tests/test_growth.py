"""Whatever a client sends, twice as much of it costs twice as much, and not more.

Operations are counted, not time. `benchmarks.live.growth` has the same inputs, eight times as
large.
"""

from __future__ import annotations

import asyncio

import pytest

from auricle_testing.fakes import InstantDetector
from benchmarks.live.callbacks import watching
from benchmarks.live.frontend import serve, serving
from benchmarks.live.growth import BAR, of_input, of_pushes
from benchmarks.live.inputs import INPUTS, Input
from benchmarks.live.operations import counting, growth
from benchmarks.live.processor import PUSHES, Pushes

pytestmark = pytest.mark.unit
# Steps that one client may run before others do: a turn of 10,000, and the longest single step.
_LONGEST_TURN = 20_000


@pytest.mark.parametrize("sent", INPUTS, ids=lambda sent: sent.name)
def test_cost_grows_with_what_a_client_sends_and_not_faster(sent: Input) -> None:
    found = of_input(sent)
    assert found.exponent <= BAR, str(found)


@pytest.mark.parametrize("pushes", PUSHES, ids=lambda pushes: pushes.name)
def test_cost_grows_with_what_a_processor_is_sent_and_not_faster(pushes: Pushes) -> None:
    found = of_pushes(pushes)
    assert found.exponent <= BAR, str(found)


HOLDING = [
    sent
    for sent in INPUTS
    if sent.name
    in {
        "one-byte frames, chunks of 80 ms",
        "fragments of one byte",
        "pings",
        "the largest frames, not listened to",
        "mu-law in large frames",
        "log-mel segments of one frame",
        "appends of the largest size",
        "clears",
        "commits of nothing",
    }
]


@pytest.mark.parametrize("sent", HOLDING, ids=lambda sent: sent.name)
def test_others_run_after_a_few_milliseconds_of_work_for_one_client(sent: Input) -> None:
    serve(sent.path, sent.data(1))  # work that is done once per process does not count
    data = sent.data(2 * sent.size)
    with counting() as counted, watching(lambda: counted.steps) as longest:
        asyncio.run(serving(sent.path, data, InstantDetector()))
    assert counted.steps > 1.5 * _LONGEST_TURN  # otherwise the test proves nothing
    assert longest.amount <= _LONGEST_TURN, longest.step


def test_what_grows_faster_is_found() -> None:
    def sum_at_every_step(values: list[int]) -> None:
        seen: list[int] = []
        for value in values:
            seen.append(value)
            sum(each for each in seen)

    found = growth("a sum over all", lambda n: list(range(n)), sum_at_every_step, 100)
    assert found.exponent > 1.8


def test_four_hundred_thousand_frames_of_one_byte_cost_what_they_weigh() -> None:
    """With chunks of 80 ms and all audio passed on, they once kept a frontend busy for minutes.

    The cost of a frame is small, and the same for the thousandth as for the first. The calls to the
    processor are few, and do not depend on the number of frames.
    """
    (attack,) = (sent for sent in INPUTS if sent.name.startswith("one-byte frames, chunks of 80"))
    found = growth(attack.name, attack.data, lambda data: serve(attack.path, data), 1_500)
    per_frame = (found.steps[2] - found.steps[0]) / (found.sizes[2] - found.sizes[0])
    assert found.exponent <= BAR
    assert per_frame <= 400
