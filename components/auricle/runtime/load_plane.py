"""Load reports on Dynamo's event plane (ZeroMQ or NATS, whichever is configured).

Dynamo's Python bindings have no publisher of arbitrary events, but they relay what an engine
publishes on a local ZeroMQ socket, as it is; our reports go that way.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import msgspec

from auricle.load_reports import LoadReport

log = logging.getLogger(__name__)
_ENCODER = msgspec.msgpack.Encoder()
_JOIN_SECONDS = 5.0
# A reader that is behind misses reports rather than holding anybody up: the next comes soon.
_HIGH_WATER = 100


class LoadPublisher:
    """Publishes this process's reports under `endpoint`."""

    def __init__(self, endpoint: Any) -> None:
        import zmq
        from dynamo.llm import FpmEventRelay

        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PUB)
        self._socket.setsockopt(zmq.SNDHWM, _HIGH_WATER)
        self._socket.setsockopt(zmq.LINGER, 0)
        port: int = self._socket.bind_to_random_port("tcp://127.0.0.1")
        self._relay = FpmEventRelay(endpoint, f"tcp://127.0.0.1:{port}")
        self._number = 0

    def publish(self, report: LoadReport) -> None:
        """Never waits."""
        import zmq

        # As vLLM's engines publish: topic, sequence number, payload.
        frames = (b"", self._number.to_bytes(8, "big"), _ENCODER.encode(report))
        self._number += 1
        try:
            self._socket.send_multipart(frames, flags=zmq.NOBLOCK)
        except zmq.Again:
            log.debug("load report %d dropped", self._number)

    def close(self) -> None:
        """No more reports."""
        self._relay.shutdown()
        self._socket.close()


class LoadSubscriber:
    """Hears the reports of all instances published under `endpoint`, on the event loop."""

    def __init__(self, endpoint: Any, kind: Any, heard: Callable[[Any], None]) -> None:
        from dynamo.llm import FpmEventSubscriber

        self._decoder = msgspec.msgpack.Decoder(kind)
        self._heard = heard
        self._loop = asyncio.get_running_loop()
        self._events = FpmEventSubscriber(endpoint)
        # Its receive blocks, so it has a thread; `close` ends it.
        self._thread = threading.Thread(target=self._receive, name="load reports", daemon=True)
        self._closed = False
        self._thread.start()

    def _receive(self) -> None:
        while not self._closed and (payload := self._events.recv()) is not None:
            try:
                report = self._decoder.decode(payload)
            except msgspec.DecodeError as error:
                log.warning("a load report that is none: %s", error)
                continue
            if not self._closed:
                self._loop.call_soon_threadsafe(self._heard, report)

    def close(self) -> None:
        """No more reports are heard."""
        self._closed = True
        self._events.shutdown()
        self._thread.join(_JOIN_SECONDS)
