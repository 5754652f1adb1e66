"""Publish and subscribe on Dynamo's event plane (ZeroMQ or NATS, as configured).

Dynamo's Python bindings have no publisher of arbitrary events. They do relay messages that an
engine publishes on a local ZeroMQ socket, without changes, so our events take that path.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from auricle.config.settings import CommonSettings
from auricle.core.errors import ProcessFailed, UntrustedCaller
from auricle.dynamo.network import EventSockets, event_sockets
from auricle.dynamo.refusals import Refusals
from auricle.dynamo.signing import Signer, Verifier
from auricle.dynamo.wire import encoded

log = logging.getLogger(__name__)

_JOIN_SECONDS = 5.0
# A slow subscriber loses messages instead of causing backpressure: newer ones follow.
_HIGH_WATER = 100


class EventPublisher:
    """Publishes this process's events under `endpoint`. Not thread-safe."""

    def __init__(self, endpoint: Any, topic: str, sealer: Signer) -> None:
        """`topic` is the endpoint's name, for whose subscribers `sealer` seals the events."""
        import zmq
        from dynamo.llm import FpmEventRelay

        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PUB)
        self._socket.setsockopt(zmq.SNDHWM, _HIGH_WATER)
        self._socket.setsockopt(zmq.LINGER, 0)
        port: int = self._socket.bind_to_random_port("tcp://127.0.0.1")
        self._relay = FpmEventRelay(endpoint, f"tcp://127.0.0.1:{port}")
        self._number = 0
        self._topic = topic
        self._sealer = sealer

    def publish(self, event: msgspec.Struct) -> None:
        """Publish an event without blocking; drop it if the relay's queue is full."""
        import zmq

        # As vLLM's engines publish: topic, sequence number, payload.
        sealed = self._sealer.seal(encoded(event), self._topic)
        frames = (b"", self._number.to_bytes(8, "big"), sealed)
        self._number += 1
        try:
            self._socket.send_multipart(frames, flags=zmq.NOBLOCK)
        except zmq.Again:
            log.debug("event %d dropped: the relay's queue is full", self._number)

    async def run(self, event: Callable[[], msgspec.Struct], every_seconds: float) -> None:
        """Publish the result of `event()` every `every_seconds`, until cancelled."""
        while True:
            await asyncio.sleep(every_seconds)
            self.publish(event())

    def close(self) -> None:
        """Stop publishing."""
        self._relay.shutdown()
        self._socket.close()


class EventSubscriber:
    """Calls `heard` with every event of type `kind` published under `endpoint`.

    The calls are made on the event loop that is running when this is constructed. An event
    that cannot be decoded, or was not sealed by a process of the deployment, is logged and skipped.
    """

    def __init__(
        self,
        endpoint: Any,
        kind: Any,
        heard: Callable[[Any], None],
        opener: Verifier,
        refusals: Refusals,
    ) -> None:
        from dynamo.llm import FpmEventSubscriber

        self._decoder = msgspec.msgpack.Decoder(kind)
        self._heard = heard
        self._opener = opener  # of the thread
        self._refusals = refusals
        self._loop = asyncio.get_running_loop()
        self._death: asyncio.Future[None] = self._loop.create_future()
        self._events = FpmEventSubscriber(endpoint)
        # Dynamo's receive call blocks, so it has a thread, which `close` ends.
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)
        self._closed = False
        self._thread.start()

    async def watch(self) -> None:
        """Wait until the thread has died, and raise ProcessFailed; return after `close`."""
        await asyncio.shield(self._death)

    def _run(self) -> None:
        why = "Dynamo ended the stream of events"
        try:
            self._receive()
        except Exception as error:
            log.exception("the thread that receives events died")
            why = f"receiving events failed: {error or type(error).__name__}"
        with suppress(RuntimeError):  # the loop has closed
            self._loop.call_soon_threadsafe(self._ended, why)

    def _ended(self, why: str) -> None:
        if self._death.done():
            return
        if self._closed:
            self._death.set_result(None)
        else:
            self._death.set_exception(ProcessFailed(why))

    def _receive(self) -> None:
        while not self._closed and (payload := self._events.recv()) is not None:
            try:
                event = self._decoder.decode(self._opener.open(payload))
            except UntrustedCaller as error:
                self._refusals.add("the event plane", error)
                continue
            except msgspec.DecodeError as error:
                log.warning("received an event that cannot be decoded: %s", error)
                continue
            if not self._closed:
                self._loop.call_soon_threadsafe(self._heard, event)

    def close(self) -> None:
        """Stop calling `heard`. Blocks for up to 5 s: call it in a worker thread."""
        self._closed = True
        self._events.shutdown()
        self._thread.join(_JOIN_SECONDS)


# Relays the event plane's messages on one machine, over Unix sockets of its user.
#
# Without a relay every publisher of Dynamo's ZeroMQ event plane listens on all addresses of the
# machine. Any process of the graph can run the relay: the one that holds a lock does, first the
# launcher. If it ends, another one takes over, and the others' sockets connect to it.

_CHECK_SECONDS = 0.5


class EventRelay:
    """A thread that runs the relay while it holds the lock, and waits for the lock before."""

    def __init__(self, sockets: EventSockets) -> None:
        self._sockets = sockets
        self._closed = threading.Event()
        self._context: Any = None
        self.running = threading.Event()
        self._thread = threading.Thread(target=self._run, name="event relay", daemon=True)

    def start(self) -> None:
        """Start the thread. Raises OSError if the lock's file cannot be written."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._lock = os.open(self._sockets.lock, flags, 0o600)
        self._thread.start()

    def close(self) -> None:
        """Stop relaying. Blocks for up to 5 s: call it in a worker thread."""
        self._closed.set()
        if self.running.is_set():
            self._context.term()  # ends the proxy
        self._thread.join(_JOIN_SECONDS)
        if self._context is not None:
            self._context.term()
        if self.running.is_set():
            # Before the lock is released: the next relay makes them anew.
            for path in (self._sockets.publishers, self._sockets.subscribers):
                path.unlink(missing_ok=True)
        os.close(self._lock)

    def _run(self) -> None:
        while not self._locked():
            if self._closed.wait(_CHECK_SECONDS):
                return
        self._relay()

    def _locked(self) -> bool:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _relay(self) -> None:
        import zmq

        self._context = zmq.Context()
        incoming, outgoing = self._context.socket(zmq.XSUB), self._context.socket(zmq.XPUB)
        try:
            for socket, path in (
                (incoming, self._sockets.publishers),
                (outgoing, self._sockets.subscribers),
            ):
                socket.setsockopt(zmq.LINGER, 0)
                socket.bind(f"ipc://{path}")
                path.chmod(0o600)
            self.running.set()
            if not self._closed.is_set():
                zmq.proxy(incoming, outgoing)
        except zmq.ContextTerminated:
            pass
        except (zmq.ZMQError, OSError) as error:
            log.error("no load reports: the event relay cannot listen: %s", error)
        finally:
            incoming.close()
            outgoing.close()


@contextlib.contextmanager
def relaying(settings: CommonSettings) -> Iterator[None]:
    """Run the relay of a graph with these settings, if it has one, until the block ends."""
    sockets = event_sockets(settings)
    if sockets is None:
        yield
        return
    relay = EventRelay(sockets)
    relay.start()
    try:
        yield
    finally:
        relay.close()
