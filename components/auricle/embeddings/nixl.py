"""One-sided reads and notifications over NIXL, which is imported in this file alone.

One thread owns the agent and makes every NIXL call, so no event loop blocks and the agent needs no
lock. The agent's own progress thread is off, because it uses a core even if idle; our thread drives
progress instead, only while a transfer or notification is expected.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import queue
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from auricle.core.errors import ProcessFailed, RegistrationFailed, TransferFailed
from auricle.embeddings.reader import Reader
from auricle.embeddings.reads import (
    READING,
    Command,
    Message,
    PendingRead,
    ReadRequest,
    Region,
    ThreadPing,
    resolve,
)
from auricle.embeddings.slab import Slab
from auricle.process.device_faults import first_sentence

log = logging.getLogger(__name__)

# The major versions of CUDA with a NIXL package.
_CUDA_MAJORS = (12, 13)
# Faster polling would hardly shorten the read of a window (about 0.5 ms) and would use a core.
# Without RDMA hardware the owner of the memory must drive progress for its reader, so its
# interval bounds the duration of a read.
_POLL_SECONDS = 0.0001
_NOTIFICATION_POLL_SECONDS = 0.0005
# A read's second step moves 64 bytes per window. At the intervals above it could take as long as
# the first, so both sides poll faster until it is over: the owner from the READING message until
# the notice, for at most _SERVING_SECONDS.
_STEP_POLL_SECONDS = 0.00005
_SERVING_SECONDS = 0.002
# NIXL does not report when a notification without a read has left; connecting takes up to 40 ms.
_SENDING_SECONDS = 0.2
_FAILED_POLLS = 100


def cuda_majors() -> tuple[int, ...]:
    """Return the major versions of CUDA for which NIXL is installed, without importing it."""
    return tuple(major for major in _CUDA_MAJORS if find_spec(f"nixl_cu{major}") is not None)


class NixlEndpoint:
    """A NIXL agent over registered memory regions, and the thread that drives it.

    All public methods may be called from any thread. `on_notice` is called in the agent's
    thread with each notification's bytes. `awaiting_notices` is called there too: while it
    returns True, the thread polls for notifications. `bind_thread` is called there first.
    """

    def __init__(
        self,
        name: str,
        regions: Sequence[Region],
        on_notice: Callable[[bytes], None] | None = None,
        awaiting_notices: Callable[[], bool] = lambda: False,
        bind_thread: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self._regions = tuple(regions)
        self._on_notice = on_notice
        self._awaiting_notices = awaiting_notices
        self._enter_thread = bind_thread
        self._inbox: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._reader = Reader(self._send)
        self._sending_until = self._serving_until = 0.0
        self._serving = 0  # reads that have begun and whose notice has not come
        self._started: Future[bytes] = Future()
        self._thread = threading.Thread(target=self._run, name=f"nixl-{name}", daemon=True)
        self._stopping = False
        self._failed_polls = 0  # in a row
        self._death: Future[None] = Future()

    def start(self, deadline_seconds: float = 30.0) -> bytes:
        """Create the agent, register the memory and return the agent's metadata. Blocks.

        Raises RegistrationFailed if NIXL refuses the memory, TimeoutError after
        `deadline_seconds`, or whatever else NIXL raised.
        """
        self._thread.start()
        self.metadata = self._started.result(deadline_seconds)
        return self.metadata

    def close(self) -> None:
        """Stop the thread, for at most 5 s; open reads fail with TransferFailed."""
        self._stopping = True
        self._inbox.put(None)
        self._thread.join(5.0)
        if self._reader.had_failures or self._reader.has_late:
            # UCX aborts the process when an agent that lost a peer is destroyed
            # (arbiter assertion, NIXL 1.4). The process is about to exit, so leak the agent.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._agent))

    def wake(self) -> None:
        """Make the thread call `awaiting_notices` again, after a lease was granted."""
        self._inbox.put(None)

    def begin(self, request: ReadRequest) -> PendingRead:
        """Start a read. Its `outcome` raises TransferFailed on an error or after the deadline."""
        pending = PendingRead(request)
        self._inbox.put(pending)
        if self._death.done():
            self._fail_queued("the NIXL thread has ended")
        return pending

    async def watch(self) -> None:
        """Wait until the thread has died, and raise ProcessFailed; return after `close`."""
        await asyncio.shield(asyncio.wrap_future(self._death))

    async def answers(self) -> None:
        """Return once the thread has answered, which it does between two calls of NIXL."""
        self._inbox.put(ping := ThreadPing())
        await asyncio.wrap_future(ping.answer)

    def notify(self, agent: str, agent_metadata: bytes, notice: bytes) -> None:
        """Send a notification without a read. Delivery is not guaranteed; failures are logged."""
        self._inbox.put(Message(agent, agent_metadata, notice))

    # ── the agent's thread ──────────────────────────────────────────────────

    def _run(self) -> None:
        try:
            self._open()
        except Exception as error:  # start() re-raises whatever NIXL raised
            self._started.set_exception(error)
            return
        death: Exception | None = None
        try:
            while not self._stopping:
                self._take_requests()
                self._reader.poll()
                self._poll_notices()
        except Exception as error:
            log.exception("The NIXL thread died")
            death = ProcessFailed(f"the NIXL thread died: {error or type(error).__name__}")
        finally:
            resolve(self._death, death)
            why = "the NIXL endpoint was closed" if death is None else "the NIXL thread has ended"
            self._reader.fail_all(why)
            self._fail_queued(why)

    def _fail_queued(self, why: str) -> None:
        """Fail the queued reads; called in any thread."""
        with suppress(queue.Empty):
            while True:
                item = self._inbox.get_nowait()
                if isinstance(item, PendingRead):
                    resolve(item.ended, None)
                    resolve(item.outcome, TransferFailed(why))

    def _open(self) -> None:
        self._enter_thread()  # NIXL reaches a device's memory through this thread's context
        kinds = sorted({region.memory for region in self._regions})
        if "VRAM" in kinds:
            # Without NVLink, UCX would read another process's memory on the same GPU through the
            # host, at 0.5 GB/s. Later releases of NIXL set this. Without a GPU, UCX warns that it
            # is unused.
            os.environ.setdefault("UCX_CUDA_IPC_ENABLE_GET_ZCOPY", "on")
        from nixl._api import nixl_agent, nixl_agent_config  # the build for PyTorch's CUDA

        self._agent = nixl_agent(self.name, nixl_agent_config(enable_prog_thread=False))
        self._reader.agent = self._agent
        self._registrations = [self._registered(memory) for memory in kinds]
        self.backends = tuple(self._agent.backends)
        self._started.set_result(self._agent.get_agent_metadata())

    def _registered(self, memory: str) -> Any:
        rows = [(r.address, r.size, r.device, "") for r in self._regions if r.memory == memory]
        try:
            return self._agent.register_memory(self._agent.get_reg_descs(rows, memory))
        except Exception as error:  # NIXL raises its own types
            why = first_sentence(error)
            raise RegistrationFailed(f"NIXL does not register {memory}: {why}") from error

    def _take_requests(self) -> None:
        try:
            item = self._inbox.get(timeout=self._pause())
            while True:
                if isinstance(item, PendingRead):
                    self._reader.start(item)
                elif isinstance(item, ThreadPing):
                    resolve(item.answer, None)
                elif item is not None:
                    self._send(item)
                item = self._inbox.get_nowait()
        except queue.Empty:
            pass

    def _pause(self) -> float | None:
        """Return the seconds until the next poll of NIXL; None while nothing is expected."""
        if self._reader.in_later_step or self._serves():
            return _STEP_POLL_SECONDS
        if self._reader.busy:
            return _POLL_SECONDS
        if self._sends() or (self._on_notice is not None and self._awaiting_notices()):
            return _NOTIFICATION_POLL_SECONDS
        return None

    def _send(self, message: Message) -> None:
        try:
            peer = self._reader.peer(message.agent, message.agent_metadata)
            self._agent.send_notif(peer, message.notice)
            self._sending_until = time.monotonic() + _SENDING_SECONDS
        except Exception as error:  # NIXL raises its own types
            self._reader.forget_peer(message.agent)
            log.info("Notifying %s failed: %s", message.agent, error or type(error).__name__)

    def _sends(self) -> bool:
        """Whether a recently sent notification may still need progress."""
        return time.monotonic() < self._sending_until

    def _serves(self) -> bool:
        """Whether another process has announced a read of this one's memory that is not over."""
        return self._serving > 0 and time.monotonic() < self._serving_until

    def _poll_notices(self) -> None:
        if self._on_notice is None and not self._sends():
            return
        try:
            received = self._agent.get_new_notifs()  # drives progress, too
        except Exception as error:  # NIXL raises its own types, e.g. for a peer that has gone
            self._failed_polls += 1
            if self._failed_polls == _FAILED_POLLS:
                raise
            log.warning("Receiving notifications failed: %s", error or type(error).__name__)
            return
        self._failed_polls = 0
        for notices in received.values():
            for notice in notices:
                self._on_notification(notice)

    def _on_notification(self, notice: bytes) -> None:
        if notice == READING:
            self._serving = self._serving + 1 if self._serves() else 1
            self._serving_until = time.monotonic() + _SERVING_SECONDS
            return
        self._serving = max(0, self._serving - 1)
        try:
            if self._on_notice is not None:
                self._on_notice(notice)
        except Exception:  # input from another process must not end this thread
            log.exception("A notification could not be handled")


def start_endpoint(
    slab: Slab,
    role: str,
    *,
    on_notice: Callable[[bytes], None] | None = None,
    awaiting_notices: Callable[[], bool] = lambda: False,
) -> NixlEndpoint:
    """Start an endpoint over a process's slab; `role` begins its name. Blocks.

    A restarted process is a new agent, so stale metadata cannot address its memory. Raises whatever
    `NixlEndpoint.start` does; after RegistrationFailed the slab is closed.
    """
    endpoint = NixlEndpoint(
        f"{role}-{os.getpid()}-{uuid.uuid4().hex[:8]}",
        slab.regions,
        on_notice=on_notice,
        awaiting_notices=awaiting_notices,
        bind_thread=slab.bind_thread,
    )
    try:
        endpoint.start()
    except RegistrationFailed:
        slab.close()
        raise
    return endpoint
