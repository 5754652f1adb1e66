"""Hostile clients and neighbours of the shared graph: small attacks, and some cases of all areas.

`python -m benchmarks.hostile` runs the whole campaign, with a concurrent witness."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from auricle_testing.server import Server, frontend_beside
from benchmarks.hostile.areas import AREAS, ATTACKS
from benchmarks.hostile.attackers.wire import Target
from benchmarks.hostile.graph import frontend_ports, target_of
from benchmarks.tests.graph.hostile import patient, target_at, try_cases

pytestmark = pytest.mark.end_to_end
COUNTS = {
    "handshakes": 40, "frames": 40, "starts": 40, "resumes": 60, "events": 40, "queries": 80,
    "forms": 40, "leaving": 3, "containers": 6, "pcm": 15, "features": 30, "requests": 40,
    "ports": 40, "servers": 40, "listen": 60, "damaged": 20,
    "trailers": 40, "hosts": 40,
}  # fmt: skip
# For a frontend that has their ports and logs the text of telephone calls.
COUNTS_OF_PORTS = {"telephones": 60, "wyoming": 40, "rpc": 80, "grpc": 60}
# Attacks that need keys, minutes, or default limits are in the campaign only.
SCALES = {
    "one_byte_frames": 0.15,
    "ping_flood": 0.05,
    "small_events": 0.05,
    "failed_starts": 1.0,
    "feature_offsets": 1.0,
    "feature_extremes": 1.0,
    "echo": 1.0,
    "one_token_many_times": 0.2,
    "tiny_packets": 0.2,
    "many_channels": 0.25,
    "slow_bodies": 1.0,
    "other_files": 0.3,
    "other_hosts": 1.0,
    "strangers_inside": 1.0,
    "readable_by_others": 1.0,
    "beyond_loopback": 1.0,
}


@pytest.fixture(autouse=True)
def only_a_hang_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    patient(monkeypatch)


@pytest.fixture
def target(server: Server, monkeypatch: pytest.MonkeyPatch) -> Target:
    """Return the shared graph as a target."""
    return target_at(server, monkeypatch)


@pytest.fixture(scope="module")
def with_ports(server: Server) -> Iterator[tuple[Server, Target]]:
    """Yield another frontend of the graph, with a port for each protocol that needs its own."""
    ports = frontend_ports()
    settings = [f"--Frontend.{name}={port}" for name, port in ports.items()]
    with frontend_beside(server, "--Common.log_transcripts=true", *settings) as frontend:
        yield frontend, target_of(frontend, {}, ports=ports)


@pytest.mark.parametrize("area", COUNTS)
async def test_some_cases_of_each_area(server: Server, target: Target, area: str) -> None:
    pid = server.component("Frontend").pid
    await try_cases(server, target, area, COUNTS[area])
    assert server.component("Frontend").pid == pid


@pytest.mark.parametrize("area", COUNTS_OF_PORTS)
async def test_some_cases_of_each_protocol_with_a_port_of_its_own(
    with_ports: tuple[Server, Target], area: str
) -> None:
    frontend, target = with_ports
    await try_cases(frontend, target, area, COUNTS_OF_PORTS[area])
    assert frontend.process.poll() is None


@pytest.mark.parametrize("name", SCALES)
async def test_no_attack_of_the_campaign_succeeds(target: Target, name: str) -> None:
    found = await ATTACKS[name].run(target, SCALES[name])
    assert found.held, found.detail


def test_every_area_and_attack_is_tried_here_or_in_the_campaign() -> None:
    only_there = {
        "translations",
        "translate_requests",
        "reports",
        "faster_than_real_time",
        "come_and_go",
        "false_tokens",
        "silent_connections",
        "hours_of_silence",
        "the_witness_impersonated",
        "log_flood",
        "media_bombs",
        "key_of_another",
        "grpc_messages",
        "grpc_calls",
        "grpc_watches",
        "grpc_connections",
        "compressed_messages",
        "http2_floods",
        "endless_trailers",
        "idle_connections",
        "keyless_requests",
        "spoiled_recordings",
        "silent_sessions",
        "equal_calls",
        "stored_uploads",
        "jobs",  # which need a folder
        "jobs_of_others",
    }
    tried = {*COUNTS, *COUNTS_OF_PORTS, *SCALES}
    assert tried | only_there == {*AREAS, *ATTACKS}
