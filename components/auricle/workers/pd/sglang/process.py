"""The process of SGLang's scheduler: takes messages between passes, and runs passes."""

from __future__ import annotations

import logging
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from auricle.checkpoints.text_model import end_tokens
from auricle.embeddings.slab import Slab
from auricle.embeddings.slabs import attach
from auricle.process.device_faults import end_if_sticky, first_sentence
from auricle.process.engine_process import end_with_parent, lock_down_ports
from auricle.process.resources import collect_as_usual, collect_rarely, trim_heap
from auricle.workers.pd.engine import GenerateRequest
from auricle.workers.pd.sglang import standins
from auricle.workers.pd.sglang.messages import (
    Ask,
    Cancel,
    Ended,
    Loaded,
    SglangOptions,
    Stepped,
    Submit,
)

log = logging.getLogger(__name__)


def serve(connection: Connection, threads: int, *, on_gpu: bool) -> None:
    """Import SGLang, then serve the engine at `connection` until that ends."""
    end_with_parent()
    torch.set_num_threads(threads)
    standins.prepare_imports(on_gpu=on_gpu)
    try:
        collect_rarely()
        import auricle.workers.pd.sglang.arguments  # noqa: F401 - takes many seconds

        collect_as_usual()
        options = connection.recv()
        server = Server(connection, options)
    except EOFError:
        return
    except Exception as error:
        log.debug("SGLang cannot start", exc_info=True)
        connection.send(Loaded(reason=first_sentence(error)))
        return
    connection.send(Loaded(server.kv_tokens))
    try:
        server.run()
    except (EOFError, BrokenPipeError):
        return
    except Exception as error:
        log.exception("SGLang's engine ends")
        end_if_sticky(error, "SGLang's engine")
        raise


class Server:
    """Runs the scheduler for one engine. The constructor loads the model."""

    def __init__(self, connection: Connection, options: SglangOptions) -> None:
        self._connection = connection
        self._slab: Slab | None = None
        if options.slab is not None:
            self._slab = attach(options.slab)
            self._slab.open()
        self._ends = end_tokens(Path(options.model))
        from auricle.workers.pd.sglang.arguments import new_scheduler

        self._scheduler = new_scheduler(options, self._slab, connection.send)
        self.kv_tokens = self._scheduler.kv_tokens
        lock_down_ports()
        trim_heap()

    def run(self) -> None:
        """Serve until the engine's end of the connection is closed, which raises EOFError."""
        while True:
            # Waits for a message only if there is nothing to do.
            while self._scheduler.idle or self._connection.poll():
                self._take(self._connection.recv())
            seconds = self._scheduler.step()
            self._connection.send(Stepped(seconds, self._scheduler.kv_usage))

    def _take(self, message: Submit | Cancel | Ask) -> None:
        match message:
            case Submit(number, request):
                self._submit(number, request)
            case Cancel(number):
                self._scheduler.cancel(number)
            case Ask():
                self._connection.send(message)

    def _submit(self, number: int, request: GenerateRequest) -> None:
        """Queue a request if its slots hold its windows. Otherwise only this request fails."""
        for ref in request.windows:
            assert self._slab is not None
            wrong = self._slab.mismatch(ref.slot, ref.key, ref.generation, ref.length)
            if wrong is not None:
                self._connection.send(Ended(number, missing=ref.key, wrong=wrong))
                return
        self._scheduler.submit(number, request, self._ends | set(request.stop_tokens))
