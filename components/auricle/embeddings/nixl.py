"""NIXL, imported here and nowhere else.

One thread owns the agent: every NIXL call is made there, so nothing blocks an
event loop and the agent needs no locking. The agent's own progress thread is
off (it burns a core per idle agent); this thread makes progress instead, and
only while there is something to wait for.
"""

from __future__ import annotations

import ctypes
import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from auricle.errors import TransferFailed

log = logging.getLogger(__name__)
# Polling faster does not help a read of a window (about 0.5 ms) and burns a core.
# Without RDMA hardware the owner of the memory has to make progress for its reader,
# so the notification poll bounds the time of a read.
_POLL_SECONDS = 0.0002
_NOTIFICATION_POLL_SECONDS = 0.0005
# A message without a read says nothing when it has left; first contact takes up to 40 ms.
_SENDING_SECONDS = 0.2


@dataclass(frozen=True)
class Region:
    """Bytes of one memory: `memory` is DRAM or VRAM, `device` its id (0 for DRAM)."""

    address: int
    size: int
    device: int = 0
    memory: str = "DRAM"


@dataclass(frozen=True)
class ReadRequest:
    """Read `remote` regions of one agent into `local` ones, pairwise; then tell it `notice`."""

    agent: str
    agent_metadata: bytes
    remote: tuple[Region, ...]
    local: tuple[Region, ...]
    notice: bytes
    deadline_seconds: float


@dataclass(frozen=True)
class _Message:
    """To another agent, without a read."""

    agent: str
    agent_metadata: bytes
    notice: bytes


class PendingRead:
    """A read under way.

    `outcome` is its result. `ended` is done once the local regions can no longer
    be written to: after a time-out that may be much later.
    """

    def __init__(self, request: ReadRequest) -> None:
        self.request = request
        self.outcome: Future[None] = Future()
        self.ended: Future[None] = Future()
        self.handle: Any = None
        self.deadline = 0.0


class NixlEndpoint:
    """An agent over one registered memory, and the thread that drives it.

    `on_notice` is called in that thread with each notification's bytes; it is
    listened for while `awaiting_notices()`.
    """

    def __init__(
        self,
        name: str,
        region: Region,
        on_notice: Callable[[bytes], None] | None = None,
        awaiting_notices: Callable[[], bool] = lambda: False,
    ) -> None:
        self.name = name
        self._region = region
        self._on_notice = on_notice
        self._awaiting_notices = awaiting_notices
        self._inbox: queue.SimpleQueue[PendingRead | _Message | None] = queue.SimpleQueue()
        self._active: list[PendingRead] = []
        self._late: list[PendingRead] = []  # timed out, still in progress
        self._sending_until = 0.0
        self._peers: dict[str, bytes] = {}
        self._started: Future[bytes] = Future()
        self._thread = threading.Thread(target=self._run, name=f"nixl-{name}", daemon=True)
        self._stopping = False
        self._had_failures = False

    def start(self, deadline_seconds: float = 30.0) -> bytes:
        """Create the agent and register the memory; returns the agent's metadata."""
        self._thread.start()
        self.metadata = self._started.result(deadline_seconds)
        return self.metadata

    def close(self) -> None:
        """Stop the thread; open transfers fail."""
        self._stopping = True
        self._inbox.put(None)
        self._thread.join(5.0)
        if self._had_failures or self._late:
            # UCX aborts the process when an agent that lost a peer is destroyed
            # (arbiter assertion, NIXL 1.4). This process is ending: keep the agent.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._agent))

    def wake(self) -> None:
        """Something to wait for has begun (a lease was granted)."""
        self._inbox.put(None)

    def begin(self, request: ReadRequest) -> PendingRead:
        """Start a read; `outcome` fails with TransferFailed."""
        pending = PendingRead(request)
        self._inbox.put(pending)
        return pending

    def notify(self, agent: str, agent_metadata: bytes, notice: bytes) -> None:
        """Tell another agent something; if it cannot be reached nobody hears of it."""
        self._inbox.put(_Message(agent, agent_metadata, notice))

    # ── the agent's thread ──────────────────────────────────────────────────

    def _run(self) -> None:
        try:
            self._open()
        except Exception as error:  # whatever NIXL raises, start() must hear it
            self._started.set_exception(error)
            return
        while not self._stopping:
            self._take_requests()
            self._poll_transfers()
            self._poll_notices()
        for read in self._active:
            _settle(read.outcome, TransferFailed("the NIXL endpoint was closed"))

    def _open(self) -> None:
        from nixl_cu12._api import nixl_agent, nixl_agent_config

        self._agent = nixl_agent(self.name, nixl_agent_config(enable_prog_thread=False))
        region = self._region
        descriptors = self._agent.get_reg_descs(
            [(region.address, region.size, region.device, "")], region.memory
        )
        self._registration = self._agent.register_memory(descriptors)
        self._started.set_result(self._agent.get_agent_metadata())

    def _take_requests(self) -> None:
        busy = bool(self._active or self._late)
        wait: float | None = None
        if busy:
            wait = _POLL_SECONDS
        elif self._sends() or (self._on_notice is not None and self._awaiting_notices()):
            wait = _NOTIFICATION_POLL_SECONDS
        try:
            item = self._inbox.get(timeout=wait)
            while True:
                if isinstance(item, PendingRead):
                    self._start_read(item)
                elif item is not None:
                    self._send(item)
                item = self._inbox.get_nowait()
        except queue.Empty:
            pass

    def _send(self, message: _Message) -> None:
        try:
            peer = self._peer(message.agent, message.agent_metadata)
            self._agent.send_notif(peer, message.notice)
            self._sending_until = time.monotonic() + _SENDING_SECONDS
        except Exception as error:  # NIXL raises its own types
            self._forget_peer(message.agent)
            log.info("telling %s failed: %s", message.agent, error or type(error).__name__)

    def _sends(self) -> bool:
        """Whether a message may still need progress to be made for it."""
        return time.monotonic() < self._sending_until

    def _start_read(self, read: PendingRead) -> None:
        request = read.request
        try:
            read.handle = self._agent.initialize_xfer(
                "READ",
                self._descriptors(request.local),
                self._descriptors(request.remote),
                self._peer(request.agent, request.agent_metadata),
                request.notice,
            )
            self._agent.transfer(read.handle)
        except Exception as error:  # NIXL raises its own types; all mean this read failed
            self._forget_peer(request.agent)
            if read.handle is not None:
                self._release(read)
            _settle(read.ended, None)
            what = f"reading from {request.agent} failed: {error or type(error).__name__}"
            _settle(read.outcome, TransferFailed(what))
            return
        read.deadline = time.monotonic() + request.deadline_seconds
        self._active.append(read)

    def _peer(self, agent: str, metadata: bytes) -> str:
        """The remote agent, introduced once per (name, metadata)."""
        if self._peers.get(agent) != metadata:
            name = self._agent.add_remote_agent(metadata)
            name = name.decode() if isinstance(name, bytes) else name
            if name != agent:
                raise TransferFailed(f"metadata is of agent {name}, not {agent}")
            self._peers[agent] = metadata
        return agent

    def _forget_peer(self, agent: str) -> None:
        """It failed: introduce it anew before the next read."""
        self._had_failures = True
        self._peers.pop(agent, None)

    def _descriptors(self, regions: tuple[Region, ...]) -> Any:
        rows = [(r.address, r.size, r.device) for r in regions]
        return self._agent.get_xfer_descs(rows, regions[0].memory)

    def _poll_transfers(self) -> None:
        now = time.monotonic()
        for read in list(self._active):
            state = self._state(read)
            if state == "PROC" and now < read.deadline and not read.outcome.cancelled():
                continue
            self._active.remove(read)
            agent = read.request.agent
            if state == "DONE":
                self._end(read, None)
            elif state == "PROC":
                self._late.append(read)
                seconds = read.request.deadline_seconds
                what = f"reading from {agent} took longer than {seconds:g} s"
                _settle(read.outcome, TransferFailed(what))
            else:
                self._forget_peer(agent)
                self._end(read, TransferFailed(f"reading from {agent} failed: {state}"))
        for read in list(self._late):
            if self._state(read) != "PROC":
                self._late.remove(read)
                self._release(read)
                _settle(read.ended, None)

    def _state(self, read: PendingRead) -> str:
        try:
            return str(self._agent.check_xfer_state(read.handle))
        except Exception as error:  # e.g. the peer disconnected
            return f"ERR ({error})"

    def _end(self, read: PendingRead, error: TransferFailed | None) -> None:
        self._release(read)
        _settle(read.ended, None)
        _settle(read.outcome, error)

    def _release(self, read: PendingRead) -> None:
        try:
            self._agent.release_xfer_handle(read.handle)
        except Exception as error:
            log.warning("releasing a transfer handle failed: %s", error)

    def _poll_notices(self) -> None:
        if self._on_notice is None and not self._sends():
            return
        for notices in self._agent.get_new_notifs().values():  # makes progress, too
            for notice in notices:
                if self._on_notice is not None:
                    self._on_notice(notice)


def _settle(future: Future[None], error: Exception | None) -> None:
    """Set a result unless the waiter is gone."""
    if not future.set_running_or_notify_cancel():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
