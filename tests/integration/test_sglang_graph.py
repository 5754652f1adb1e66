"""The graph with SGLang instead of vLLM, in short; `make test-graph ENGINE=sglang` has the rest."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest
import pytest_asyncio

from auricle_testing.server import Server, serving
from auricle_testing.transcripts import heard
from tests.faults import test_frozen
from tests.faults.sessions import spoken
from tests.graph import test_exactness, test_processes

pytestmark = [
    pytest.mark.integration,
    pytest.mark.deployment,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(find_spec("sglang") is None, reason="sglang is not installed"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving("--PdWorker.engine=sglang", "--Common.load_report_seconds=0.5") as running:
        yield running


reference, processor = test_exactness.reference, test_exactness.processor
test_internal_ports_are_on_loopback = test_processes.test_internal_ports_are_on_loopback
test_tokens_equal_a_single_process_running_the_same_checkpoint = (
    test_exactness.test_tokens_equal_a_single_process_running_the_same_checkpoint
)
test_missing_windows_are_encoded_again = test_exactness.test_missing_windows_are_encoded_again


@pytest.fixture(scope="module")
def disturbed(server: Server) -> Server:
    return server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def undisturbed(server: Server) -> str:
    return heard(await spoken(server))


test_a_session_outlives_its_engine = test_frozen.test_a_session_outlives_its_engine
