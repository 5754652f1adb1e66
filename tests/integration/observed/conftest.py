"""A graph with full observability: traces, JSON logs of every level, and KV events.

Its two PD workers share a device, as in configs/h100-0.6b-shared.yaml.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from auricle_testing.server import Server, free_port, frontend_beside, serving
from tests.engine_under_test import CAPABILITIES
from tests.integration.observed.collector import Collector

PLACEMENT = "kv" if CAPABILITIES.kv_events else "load"


@pytest.fixture(scope="package")
def collector() -> Iterator[Collector]:
    collector = Collector()
    with collector.running():
        yield collector


@pytest.fixture(scope="package")
def observed(collector: Collector) -> Iterator[Server]:
    """Two PD workers that publish KV events if the engine can, and a processor that subscribes."""
    first = free_port()
    with serving(
        f"--Common.placement={PLACEMENT}",
        "--Common.gpus=[0]",
        "--PdWorker.replicas=2",
        "--PdWorker.processes_per_device=2",
        f"--PdWorker.system_port={first}",
        f"--Common.otlp_endpoint={collector.endpoint}",
        "--Common.log_format=json",
        "--Common.log_level=DEBUG",
    ) as running:
        running.system_ports |= {"PdWorker": first, "PdWorker-2": first + 1}
        yield running


@pytest.fixture(scope="package")
def telling(observed: Server, collector: Collector) -> Iterator[Server]:
    """A frontend of the graph that logs transcripts."""
    with frontend_beside(
        observed,
        f"--Common.placement={PLACEMENT}",
        f"--Common.otlp_endpoint={collector.endpoint}",
        "--Common.log_format=json",
        "--Common.log_transcripts=true",
    ) as frontend:
        yield frontend
