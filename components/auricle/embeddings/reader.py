"""Drives the reads of one NIXL agent. NIXL itself is imported in nixl.py."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from auricle.core.errors import TransferFailed
from auricle.embeddings.reads import READING, Message, PendingRead, Region, resolve

log = logging.getLogger(__name__)


class Reader:
    """All methods are called in the agent's thread. `send` delivers a message without raising."""

    def __init__(self, send: Callable[[Message], None]) -> None:
        self.agent: Any = None  # set once it has been created
        self.had_failures = False
        self._send = send
        self._peers: dict[str, bytes] = {}
        self._driven: set[str] = set()  # peers that must drive progress for a read
        self._active: list[PendingRead] = []
        self._late: list[PendingRead] = []  # timed out, still in progress

    @property
    def busy(self) -> bool:
        return bool(self._active or self._late)

    @property
    def has_late(self) -> bool:
        return bool(self._late)

    @property
    def in_later_step(self) -> bool:
        """Whether a read has finished its first step and has further ones."""
        return any(read.step > 0 for read in self._active)

    def peer(self, agent: str, metadata: bytes) -> str:
        """Return the agent's name, after adding it to NIXL if its metadata is new."""
        if self._peers.get(agent) != metadata:
            name = self.agent.add_remote_agent(metadata)
            name = name.decode() if isinstance(name, bytes) else name
            if name != agent:
                raise TransferFailed(f"the metadata belongs to agent {name}, not {agent}")
            self._peers[agent] = metadata
        return agent

    def forget_peer(self, agent: str) -> None:
        """Have the agent added to NIXL again before the next read, after a failure."""
        self.had_failures = True
        self._peers.pop(agent, None)
        self._driven.discard(agent)

    def start(self, read: PendingRead) -> None:
        """Begin a read's first step; an error fails the read."""
        agent = read.request.agent
        try:
            self._prepare_step(read)
            if agent in self._driven and not read.in_last_step:
                self.agent.send_notif(agent, READING)
            read.began = time.monotonic()
            self.agent.transfer(read.handles[0])
        except Exception as error:  # NIXL raises its own types
            self._fail(read, str(error) or type(error).__name__)
            return
        read.deadline = time.monotonic() + read.request.deadline_seconds
        self._active.append(read)
        with suppress(Exception):  # raised again when the step is due
            while len(read.handles) < len(read.request.steps):
                self._prepare_step(read)

    def poll(self) -> None:
        """Advance reads to their next steps, and end finished ones."""
        now = time.monotonic()
        self._active = [read for read in self._active if self._goes_on(read, now)]
        self._late = [read for read in self._late if not self._ends_late(read)]

    def fail_all(self, why: str) -> None:
        """Fail the reads in progress without ending them: NIXL may still write to their memory."""
        for read in self._active:
            resolve(read.outcome, TransferFailed(why))

    def _prepare_step(self, read: PendingRead) -> None:
        request, number = read.request, len(read.handles)
        step, is_last = request.steps[number], number == len(request.steps) - 1
        handle = self.agent.initialize_xfer(
            "READ",
            self._descriptors(step.local),
            self._descriptors(step.remote),
            self.peer(request.agent, request.agent_metadata),
            request.notice if is_last else b"",
        )
        read.handles.append(handle)

    def _descriptors(self, regions: tuple[Region, ...]) -> Any:
        rows = [(r.address, r.size, r.device) for r in regions]
        return self.agent.get_xfer_descs(rows, regions[0].memory)

    def _goes_on(self, read: PendingRead, now: float) -> bool:
        """Return whether the read is still in progress and awaited."""
        state = self._state(read)
        unwanted = now >= read.deadline or read.outcome.cancelled()
        if state == "DONE" and read.in_last_step:
            self._end(read, None)
            return False
        if state not in ("DONE", "PROC"):
            self._fail(read, state)
            return False
        if unwanted:
            # Kept until the step has ended.
            self._late.append(read)
            seconds = read.request.deadline_seconds
            error = TransferFailed(
                f"reading from {read.request.agent} took longer than {seconds:g} s"
            )
            resolve(read.outcome, error)
            return False
        return state == "PROC" or (self._next_step(read) and self._goes_on(read, now))

    def _next_step(self, read: PendingRead) -> bool:
        """Begin the next step; returns False if that failed."""
        read.step += 1
        try:
            if read.step == len(read.handles):
                self._prepare_step(read)
            self.agent.transfer(read.handles[read.step])
        except Exception as error:
            self._fail(read, str(error) or type(error).__name__)
            return False
        # With shared memory the header arrives at once. Otherwise its owner must drive progress,
        # and polls more often after a READING message.
        if self._state(read) == "PROC":
            self._driven.add(read.request.agent)
        return True

    def _ends_late(self, read: PendingRead) -> bool:
        state = self._state(read)
        if state == "PROC":
            return False
        if state == "DONE" and not read.in_last_step:
            # The last step, which would have delivered the notice, is skipped.
            request = read.request
            self._send(Message(request.agent, request.agent_metadata, request.notice))
        self._release(read)
        resolve(read.ended, None)
        return True

    def _state(self, read: PendingRead) -> str:
        try:
            return str(self.agent.check_xfer_state(read.handles[read.step]))
        except Exception as error:  # e.g. the peer disconnected
            return f"ERR ({error})"

    def _fail(self, read: PendingRead, why: str) -> None:
        agent = read.request.agent
        self.forget_peer(agent)
        self._end(read, TransferFailed(f"reading from {agent} failed: {why}"))

    def _end(self, read: PendingRead, error: TransferFailed | None) -> None:
        read.seconds = time.monotonic() - read.began
        self._release(read)
        resolve(read.ended, None)
        resolve(read.outcome, error)

    def _release(self, read: PendingRead) -> None:
        for handle in read.handles:
            try:
                self.agent.release_xfer_handle(handle)
            except Exception as error:
                log.warning("Releasing a transfer handle failed: %s", error)
