"""The graph with transformers instead of vLLM: the same exactness and behaviour towards clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from auricle_testing.server import Server, serving
from tests.graph import test_exactness, test_stream

pytestmark = [
    pytest.mark.integration,
    pytest.mark.deployment,
    pytest.mark.asyncio(loop_scope="module"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """The default graph with a PD worker that needs no vLLM."""
    with serving("--PdWorker.engine=transformers") as running:
        yield running


reference, processor = test_exactness.reference, test_exactness.processor
# These tests of vLLM's graph must pass here, too.
test_tokens_equal_a_single_process_running_the_same_checkpoint = (
    test_exactness.test_tokens_equal_a_single_process_running_the_same_checkpoint
)
test_a_minute_costs_the_same_per_chunk_from_start_to_end = (
    test_exactness.test_a_minute_costs_the_same_per_chunk_from_start_to_end
)
test_windows_of_digital_silence_which_are_equal_are_decoded_like_others = (
    test_exactness.test_windows_of_digital_silence_which_are_equal_are_decoded_like_others
)
test_missing_windows_are_encoded_again = test_exactness.test_missing_windows_are_encoded_again
test_live_text_only_grows_and_ends_as_it_was_committed = (
    test_stream.test_live_text_only_grows_and_ends_as_it_was_committed
)


async def test_no_process_of_the_graph_runs_vllm(server: Server) -> None:
    maps = [
        line
        for process in server.processes()
        for line in (m.path for m in process.memory_maps())
        if "/vllm/" in line
    ]
    assert not maps
    assert not [p for p in server.processes() if "EngineCore" in p.name()]
