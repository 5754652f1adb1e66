"""Entry point `vllm.general_plugins`: runs in every vLLM process before models load."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading

ARCHITECTURE = "AuricleQwen3ASRDecoder"
_MODEL = "auricle.pd_worker.vllm.model:AuricleQwen3ASRDecoder"


def register() -> None:
    """Make our decoder class known to vLLM (imported lazily, when it is loaded)."""
    from vllm import ModelRegistry

    _end_with_parent()
    if ARCHITECTURE not in ModelRegistry.get_supported_archs():
        ModelRegistry.register_model(ARCHITECTURE, _MODEL)


def _end_with_parent() -> None:
    """vLLM's engine outlives a parent that was killed; then nobody would ever end it."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, name="end-with-parent", daemon=True).start()
