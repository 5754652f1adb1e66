"""Wraps the process of SGLang's scheduler as an `Engine`."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import multiprocessing
import queue
import threading
from dataclasses import replace
from typing import Any

from auricle.core.aio import with_timeout
from auricle.core.errors import (
    AuricleError,
    BadRequest,
    DeadlineExceeded,
    ProcessFailed,
    WindowsMissing,
    WorkerUnavailable,
)
from auricle.load.reporter import EngineState
from auricle.workers.pd.engine import Decoded, GenerateRequest
from auricle.workers.pd.sglang import process
from auricle.workers.pd.sglang.messages import (
    Ask,
    Cancel,
    Ended,
    Loaded,
    SglangOptions,
    Stepped,
    Submit,
    capabilities,
)

# Limit of a pass in progress, which may prefill a long prompt.
_PASS_SECONDS = 5.0
# The launcher's limit for a process to become ready.
_LOAD_SECONDS = 300.0
_ENDED = "SGLang's engine on this PD worker has ended"


class EngineProcess:
    """A process that imports SGLang as soon as it is started; `connection` is to it."""

    def __init__(self, threads: int, *, on_gpu: bool) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(
            target=process.serve,
            args=(theirs, threads),
            kwargs={"on_gpu": on_gpu},
            name="sglang",
            daemon=True,
        )
        self.process.start()
        theirs.close()  # so that the connection ends with the process

    def started(self, options: SglangOptions) -> int:
        """Load the model; returns the tokens of the KV cache. Raises ProcessFailed. Blocks."""
        try:
            self.connection.send(options)
            if not self.connection.poll(_LOAD_SECONDS):
                self.end()
                raise ProcessFailed(f"SGLang cannot start: no answer for {_LOAD_SECONDS:g} s")
            answer: Loaded = self.connection.recv()
        except (EOFError, OSError):
            self.process.join(_PASS_SECONDS)
            code = self.process.exitcode
            raise ProcessFailed(f"SGLang cannot start: its process ended with {code}") from None
        if answer.reason is not None:
            self.end()
            raise ProcessFailed(f"SGLang cannot start: {answer.reason}")
        return answer.kv_tokens

    def end(self) -> None:
        """End the process in any state. Blocks."""
        self.process.kill()
        self.process.join(_PASS_SECONDS)
        self.connection.close()


class SglangEngine:
    """SGLang with audio from a slab, in the process `home`.

    The constructor blocks until the model is loaded: call it in a worker thread. It raises
    ProcessFailed if SGLang cannot start. All other methods must be called on one event loop.
    """

    def __init__(self, options: SglangOptions, home: EngineProcess) -> None:
        self.capabilities = capabilities()
        self.state = EngineState()
        self.dead = asyncio.Event()
        self.kv_tokens = home.started(options)
        self.attended = 0
        self._home = home
        self._max_model_len = options.max_model_len
        self._numbers = itertools.count()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        # A message that is longer than the pipe's buffer blocks its sender until the pass ends.
        self._outbox: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._sender = threading.Thread(target=self._send, name="to-sglang", daemon=True)
        self._sender.start()

    async def generate(self, request: GenerateRequest) -> Decoded:
        """See `Engine.generate`; cancelling ends the request between two passes."""
        if request.draft:
            raise ValueError("this engine declares no drafts and was given one")
        tokens = len(request.head) + len(request.tail) + sum(w.length for w in request.windows)
        if tokens >= self._max_model_len:
            raise BadRequest(
                f"a prompt of {tokens} tokens leaves no room for output "
                f"in max_model_len {self._max_model_len}"
            )
        room = min(request.max_tokens, self._max_model_len - tokens)
        number, answer = self._asked()
        self._outbox.put(Submit(number, replace(request, max_tokens=room)))
        try:
            ended: Ended = await asyncio.shield(answer)
        except asyncio.CancelledError:
            if not answer.done():
                self._outbox.put(Cancel(number))
                # A pass may still read the request's slots, so they must stay pinned.
                with contextlib.suppress(DeadlineExceeded):
                    await with_timeout(_PASS_SECONDS, asyncio.wait([answer]), "SGLang's abort")
            raise
        if ended.missing is not None:
            raise WindowsMissing((ended.missing,), ended.wrong)
        if ended.decoded is None:
            raise AuricleError(f"SGLang ended the request: {ended.wrong}")
        return ended.decoded

    async def answers(self) -> None:
        """Return once the process has answered, between two passes."""
        try:
            number, answer = self._asked()
            self._outbox.put(Ask(number))
            await answer
        except WorkerUnavailable:
            raise ProcessFailed("SGLang's engine has ended") from None

    async def check_health(self) -> None:
        """Raise ProcessFailed if the process has ended."""
        self._listen()
        if self.dead.is_set() or not self._home.process.is_alive():
            self.dead.set()
            raise ProcessFailed("SGLang's engine has ended")

    async def close(self) -> None:
        """Kill the process, which owns nothing."""
        if self._loop is not None:
            self._loop.remove_reader(self._home.connection.fileno())
        self._end()
        self._outbox.put(None)
        await asyncio.to_thread(self._home.end)
        await asyncio.to_thread(self._sender.join, _PASS_SECONDS)

    def _asked(self) -> tuple[int, asyncio.Future[Any]]:
        """Return the number of a new question, and its answer. Raises WorkerUnavailable."""
        if self.dead.is_set():
            raise WorkerUnavailable(_ENDED)
        self._listen()
        number = next(self._numbers)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(_retrieve)
        self._answers[number] = answer
        return number, answer

    def _listen(self) -> None:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self._home.connection.fileno(), self._received)

    def _received(self) -> None:
        """Take all messages that have arrived."""
        connection = self._home.connection
        try:
            while connection.poll():
                self._take(connection.recv())
        except (EOFError, OSError):
            assert self._loop is not None
            self._loop.remove_reader(connection.fileno())
            self._end()

    def _take(self, message: Ended | Ask | Stepped) -> None:
        if isinstance(message, Stepped):
            self.state.kv_usage = message.kv_usage
            if message.seconds:
                self.state.stepped(message.seconds)
            return
        answer = self._answers.pop(message.number)
        if not answer.done():
            answer.set_result(message)

    def _end(self) -> None:
        """Fail all questions, and later ones."""
        self.dead.set()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(WorkerUnavailable(_ENDED))
        self._answers.clear()

    def _send(self) -> None:
        """Send messages in order, until one is None; for a thread of its own."""
        with contextlib.suppress(OSError):  # the process has ended, which `_received` notices
            while (message := self._outbox.get()) is not None:
                self._home.connection.send(message)


def _retrieve(answer: asyncio.Future[Any]) -> None:
    """Retrieve an outcome, as asyncio would log an unretrieved exception."""
    if not answer.cancelled():
        answer.exception()
