"""Relays the event plane's messages on one machine, over Unix sockets of its user.

Without a relay every publisher of Dynamo's ZeroMQ event plane listens on all addresses of the
machine. Any process of the graph can run the relay: the one that holds a lock does, first the
launcher. If it ends, another one takes over, and the others' sockets connect to it.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import threading
from collections.abc import Iterator
from typing import Any

from auricle.runtime.network import EventSockets, event_sockets
from auricle.settings import CommonSettings

log = logging.getLogger(__name__)
_LOOK_SECONDS = 0.5
_JOIN_SECONDS = 5.0


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
            if self._closed.wait(_LOOK_SECONDS):
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
