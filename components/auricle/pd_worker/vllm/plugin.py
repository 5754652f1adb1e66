"""The entry point `vllm.general_plugins`, which vLLM calls in each of its processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing.process import BaseProcess

from auricle.pd_worker.vllm.last_words import listen
from auricle.process.heap import trim_heap

ARCHITECTURE = "AuricleQwen3ASRDecoder"
_MODEL = "auricle.pd_worker.vllm.model:AuricleQwen3ASRDecoder"


def register() -> None:
    """Register our decoder class with vLLM, which imports it when a model is loaded."""
    from vllm import ModelRegistry

    if (parent := multiprocessing.parent_process()) is not None:
        _end_with(parent)
        listen()
        trim_heap()
    if ARCHITECTURE not in ModelRegistry.get_supported_archs():
        ModelRegistry.register_model(ARCHITECTURE, _MODEL)


def _end_with(parent: BaseProcess) -> None:
    """Kill this process when its parent dies: vLLM's engine would outlive a killed parent."""

    def wait() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, name="end-with-parent", daemon=True).start()
