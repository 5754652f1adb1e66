"""The graph with SGLang instead of vLLM, in short; `make test-graph ENGINE=sglang` has the rest."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from auricle_testing.server import Server, serving
from tests.graph import test_exactness

pytestmark = [
    pytest.mark.integration,
    pytest.mark.deployment,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(find_spec("sglang") is None, reason="sglang is not installed"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving("--PdWorker.engine=sglang") as running:
        yield running


reference, processor = test_exactness.reference, test_exactness.processor
test_tokens_equal_a_single_process_running_the_same_checkpoint = (
    test_exactness.test_tokens_equal_a_single_process_running_the_same_checkpoint
)
test_missing_windows_are_encoded_again = test_exactness.test_missing_windows_are_encoded_again
