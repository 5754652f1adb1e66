"""The event plane of one machine: Unix sockets of its user, and a relay that survives processes."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from auricle.config.settings import CommonSettings
from auricle.dynamo.events import EventRelay
from auricle.dynamo.network import EventSockets, event_sockets

pytestmark = pytest.mark.unit
_SECONDS = 60_000  # ZeroMQ's time-outs, in milliseconds


def sockets_in(path: Path) -> EventSockets:
    found = event_sockets(CommonSettings(discovery_path=path))
    assert found is not None
    return found


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    context = zmq.Context()
    yield context
    context.destroy(linger=0)


def subscribed(context: zmq.Context[zmq.Socket[bytes]], at: EventSockets) -> zmq.Socket[bytes]:
    subscriber = context.socket(zmq.SUB)
    subscriber.setsockopt(zmq.SUBSCRIBE, b"")
    subscriber.setsockopt(zmq.RCVTIMEO, 50)
    subscriber.connect(f"ipc://{at.subscribers}")
    return subscriber


def heard(publisher: zmq.Socket[bytes], subscriber: zmq.Socket[bytes], message: bytes) -> bool:
    """Publish until a subscriber receives it: both sides need a moment to connect."""
    for _ in range(_SECONDS // 50):
        publisher.send(message)
        try:
            while subscriber.recv() != message:
                pass
        except zmq.Again:
            continue
        return True
    return False


def test_events_pass_through_sockets_of_this_user(
    tmp_path: Path, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    at = sockets_in(tmp_path)
    publisher = context.socket(zmq.PUB)
    publisher.connect(f"ipc://{at.publishers}")  # before the relay exists
    subscriber = subscribed(context, at)
    relay = EventRelay(at)
    relay.start()
    assert heard(publisher, subscriber, b"an event")
    for path in (at.publishers, at.subscribers):
        found = path.stat().st_mode
        assert stat.S_ISSOCK(found)
        assert found & 0o777 == 0o600
    relay.close()
    assert not at.publishers.exists()


def test_when_the_process_with_the_relay_ends_another_one_relays(
    tmp_path: Path, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    at = sockets_in(tmp_path)
    first, second = EventRelay(at), EventRelay(at)
    first.start()
    assert first.running.wait(60)
    second.start()
    publisher = context.socket(zmq.PUB)
    publisher.connect(f"ipc://{at.publishers}")
    subscriber = subscribed(context, at)
    assert heard(publisher, subscriber, b"before")
    assert not second.running.is_set()
    first.close()
    assert second.running.wait(60)
    assert heard(publisher, subscriber, b"after")
    second.close()


def test_a_relay_that_never_ran_can_be_closed(tmp_path: Path) -> None:
    at = sockets_in(tmp_path)
    first, second = EventRelay(at), EventRelay(at)
    first.start()
    assert first.running.wait(60)
    second.start()
    second.close()
    first.close()


@pytest.mark.parametrize(
    "settings",
    [{"discovery": "etcd"}, {"event_plane": "nats"}, {"internal_host": "10.0.0.5"}],
)
def test_between_machines_there_is_no_relay(settings: dict[str, str]) -> None:
    assert event_sockets(CommonSettings.model_validate(settings)) is None
