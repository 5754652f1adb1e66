"""Simulated encode and PD workers, which answer after a fixed time.

    python -m benchmarks.load.control.workers EncodeWorker --milliseconds 5 [--count 50]
                                              [--COMPONENT.KEY=VALUE ...]

They are used only to measure the control plane: they have no engine, but are registered, asked and
stopped as other workers are, and report their load. The PD worker answers with 3.5 words per
second of audio, the same ones each time. `--count` processes are forked from one, so that a
machine has memory for hundreds.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import sys
from pathlib import Path
from typing import Any

import uvloop

from auricle.checkpoints.files import open_checkpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.dynamo.worker import WorkerService, serve_worker
from auricle.launcher.component import component_settings
from auricle.load.meters import WorkMeter
from auricle.load.pools import REQUIRED_POOLS
from auricle.load.reports import PoolKind
from auricle.process.metrics import Registry
from auricle.protocol.diagnosis import RunningModel
from auricle.protocol.recognition import (
    DecodeReply,
    DecodeRequest,
    EncodeReply,
    EncodeRequest,
    WindowRef,
)
from benchmarks.harness import end_with_signals, new_parser

_KINDS: dict[str, PoolKind] = {pool.component: pool.kind for pool in REQUIRED_POOLS}
_SLOTS = 64
_WORDS_PER_SECOND = 3.5
_EMBEDDINGS_PER_SECOND = 13
_TEXT = " ".join(["one two three four five six seven eight nine ten"] * 40)


class EncodeWorker:
    """Answers that every window is in a slab; the slab is never read."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def generate(self, request: EncodeRequest) -> EncodeReply:
        """After the set time."""
        await asyncio.sleep(self._seconds)
        refs = tuple(
            WindowRef(
                key=window.key, fingerprint="", dtype="float32", length=1, agent="none",
                agent_metadata=b"", address=0, size=0, device=0, memory="DRAM", header=0, slot=0,
                generation=0, lease=0,
            )
            for window in request.windows
        )  # fmt: skip
        return EncodeReply(refs, encoded=len(refs))


class PdWorker:
    """Answers with as many words as fit into the audio."""

    def __init__(self, seconds: float, prompt: PromptFormat) -> None:
        self._seconds = seconds
        self._words = prompt._ids(_TEXT)
        self._prompt_tokens = len(prompt.tail("English"))

    async def generate(self, request: DecodeRequest) -> DecodeReply:
        """After the set time."""
        await asyncio.sleep(self._seconds)
        audio = sum(window.length for window in request.windows)
        said = int(audio / _EMBEDDINGS_PER_SECOND * _WORDS_PER_SECOND)
        known = len(request.tail) - self._prompt_tokens
        tokens = self._words[known:said]
        total = len(request.head) + audio + len(request.tail)
        return DecodeReply(tokens, "stop", total, 0, 0, steps=len(tokens))


def _service(component: str, settings: Any, milliseconds: float) -> WorkerService:
    seconds, meter = milliseconds / 1000, WorkMeter()
    model = open_checkpoint(settings.checkpoint)
    worker: EncodeWorker | PdWorker
    request: type[EncodeRequest | DecodeRequest]
    if component == "EncodeWorker":
        worker, request = EncodeWorker(seconds), EncodeRequest
    else:
        worker, request = PdWorker(seconds, PromptFormat(model)), DecodeRequest

    async def measured(asked: Any) -> Any:
        with meter.request():
            return await worker.generate(asked)

    return WorkerService(
        pool=_KINDS[component],
        request=request,
        handler=measured,
        meter=meter,
        slots=_SLOTS,
        unit="requests",
        parts=(),
        model=RunningModel(model.fingerprint, settings.dtype),
    )


def _serve(component: str, settings: Any, milliseconds: float) -> None:
    service = _service(component, settings, milliseconds)
    uvloop.run(serve_worker(settings, Registry(), service))


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("component", choices=[*_KINDS])
    parser.add_argument("--milliseconds", type=float, required=True)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("-f", dest="config", type=Path)
    arguments, overrides = parser.parse_known_args()
    settings = component_settings(arguments.component, arguments.config, overrides)
    end_with_signals()
    forked = multiprocessing.get_context("fork")
    work = (arguments.component, settings, arguments.milliseconds)
    processes = [
        forked.Process(target=_serve, args=work, daemon=True) for _ in range(arguments.count)
    ]
    gc.freeze()  # so that the collector does not copy the pages that all share
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    sys.exit(any(process.exitcode for process in processes))


if __name__ == "__main__":
    main()
