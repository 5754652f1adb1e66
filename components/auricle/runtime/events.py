"""Publish and subscribe on Dynamo's event plane (ZeroMQ or NATS, as configured).

Dynamo's Python bindings have no publisher of arbitrary events. They do relay unchanged what
an engine publishes on a local ZeroMQ socket, so our events take that path.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from auricle.errors import ProcessFailed, UntrustedCaller
from auricle.runtime.refusals import Refusals
from auricle.runtime.seals import Opener, Sealer
from auricle.runtime.wire import encoded

log = logging.getLogger(__name__)
_JOIN_SECONDS = 5.0
# A slow subscriber loses messages instead of causing backpressure: newer ones follow.
_HIGH_WATER = 100


class EventPublisher:
    """Publishes this process's events under `endpoint`. Not thread-safe."""

    def __init__(self, endpoint: Any, topic: str, sealer: Sealer) -> None:
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
        opener: Opener,
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
