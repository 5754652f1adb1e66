"""HAProxy before the frontends, with the example's configuration."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import socket
from collections.abc import Iterator

import httpx
import pytest

from auricle_testing import recordings
from auricle_testing.server import ANSWER_SECONDS, READY_SECONDS
from auricle_testing.several_hosts import CLIENT_PORT, ROLES, Deployment, until
from auricle_testing.transcripts import heard
from tests.hosts.conftest import UPLOADS_PER_ADDRESS
from tests.hosts.sessions import begun

pytestmark = [pytest.mark.end_to_end, pytest.mark.deployment]
(BALANCER,) = ROLES["balancer"]
_PATH = "/v1/audio/transcriptions"


@pytest.fixture(scope="module")
def url(deployment: Deployment) -> str:
    """The balancer's address for clients."""
    if BALANCER not in deployment.programs:
        pytest.skip("haproxy is not installed")
    settle(deployment)
    return deployment.client_url(BALANCER)


@pytest.fixture
def balancer(deployment: Deployment, url: str) -> Iterator[str]:
    """The balancer's address; the test may disturb a frontend."""
    yield url
    settle(deployment)


def settle(deployment: Deployment) -> None:
    """Wait until HAProxy gives new clients to both frontends, and neither has any."""
    until(lambda: settled(deployment), READY_SECONDS, lambda: log(deployment))


def log(deployment: Deployment) -> str:
    """Return HAProxy's log."""
    return "\n".join(deployment.programs[BALANCER].log)


def settled(deployment: Deployment) -> bool:
    """Whether HAProxy uses both frontends, by its log, and neither has a session or an upload."""
    states = dict(re.findall(r"^Server frontends/(\w+) is (\w+)", log(deployment), re.M))
    names = ("auricle_frontend_sessions", "auricle_frontend_uploads")
    return (
        set(states.values()) <= {"UP"}
        and deployment.whole()
        and not any(deployment.metric(host, name) for host in ROLES["frontend"] for name in names)
    )


def in_use(deployment: Deployment) -> tuple[str, str]:
    """Return the frontend that has the session, and the other one."""

    def sessions(host: str) -> float:
        return deployment.metric(host, "auricle_frontend_sessions")

    other, used = sorted(ROLES["frontend"], key=sessions)
    assert (sessions(other), sessions(used)) == (0, 1)
    return used, other


def resumed(deployment: Deployment, host: str) -> float:
    return deployment.metric(host, "auricle_frontend_sessions_resumed_total")


def upload(url: str, **headers: str) -> httpx.Response:
    """Request the transcript of a recording."""
    return httpx.post(
        f"{url}{_PATH}",
        data={"model": "demo"},
        files={"file": ("x.flac", recordings.path("hello").read_bytes())},
        headers=headers,
        timeout=ANSWER_SECONDS,
    )


def test_a_recording_passes_the_balancer(url: str) -> None:
    answer = upload(url)
    assert (answer.status_code, answer.json()["text"]) == (200, recordings.words("hello"))


async def test_sessions_of_a_lost_frontend_resume_at_the_other_through_the_balancer(
    deployment: Deployment, balancer: str
) -> None:
    lost = list[str]()
    speaking = await begun([balancer], "kitchen", on_lost=lost.append)
    used, other = in_use(deployment)
    before = resumed(deployment, other)
    deployment.network.unplug(used)
    try:
        await asyncio.to_thread(
            until,
            lambda: resumed(deployment, other) > before,
            ANSWER_SECONDS,
            lambda: log(deployment),
        )
    finally:
        deployment.network.heal()
    assert heard(await speaking) == recordings.words("kitchen")
    assert len(lost) == 1
    assert resumed(deployment, other) == before + 1


async def test_sessions_leave_a_draining_frontend_through_the_balancer(
    deployment: Deployment, balancer: str
) -> None:
    speaking = await begun([balancer], "kitchen")
    used, other = in_use(deployment)
    before, drained = resumed(deployment, other), deployment.programs[used]
    drained.signal(signal.SIGTERM)
    assert await asyncio.to_thread(drained.wait) == 0
    drained.start()
    assert heard(await speaking) == recordings.words("kitchen")
    assert resumed(deployment, other) == before + 1
    assert f"Server frontends/{used} is stopping" in log(deployment)


def incomplete_upload(url: str) -> socket.socket:
    """Begin an upload that never ends."""
    host = url.removeprefix("http://").removesuffix(f":{CLIENT_PORT}")
    connection = socket.create_connection((host, CLIENT_PORT), ANSWER_SECONDS)
    head = (
        f"POST {_PATH} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100000\r\n"
        "Content-Type: multipart/form-data; boundary=part\r\n\r\n--part\r\n"
    )
    connection.sendall(head.encode())
    return connection


def test_limits_by_address_count_the_clients_of_the_balancer(
    deployment: Deployment, balancer: str
) -> None:
    """One client has as many uploads as an address may have at each frontend."""

    def has_all() -> bool:
        uploads = (deployment.metric(h, "auricle_frontend_uploads") for h in ROLES["frontend"])
        return set(uploads) == {UPLOADS_PER_ADDRESS}

    with contextlib.ExitStack() as held:
        for _ in range(4 * UPLOADS_PER_ADDRESS):  # the balancer decides about their frontends
            held.enter_context(incomplete_upload(balancer))
        until(has_all, ANSWER_SECONDS, lambda: log(deployment))
        assert upload(balancer).status_code == 429
        invented = {"X-Forwarded-For": "203.0.113.9"}
        assert upload(balancer, **invented).status_code == 429
        with deployment.network.hosts[ROLES["client"][-1]].entered():
            assert upload(balancer).status_code == 200
