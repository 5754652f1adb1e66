"""Runs first in every Python process of a graph that the fault suite starts; see hooks.py.

SIGUSR2 makes the process disturb itself in ways that are impossible from outside. The signal's
handler runs in the main thread, which also runs the event loop. A file named after the process
selects the action. The graph's own code does not take part.
"""

import json
import os
import pathlib
import signal
import sys
import time
from types import FrameType
from typing import Any

_ENGINES = {
    "vllm": "VllmEngine",
    "sglang": "SglangEngine",
    "transformers": "TransformersEngine",
}
_FOLDER = os.environ.get("AURICLE_FAULTS", "")


def _do(_number: int, _frame: FrameType | None) -> None:
    order = pathlib.Path(_FOLDER) / str(os.getpid())
    said = json.loads(order.read_text())
    order.unlink()
    actions = (_block, _break_nixl, _fail_jobs, _set_clock_back)
    {action.__name__[1:]: action for action in actions}[said["action"]]()


def _block() -> None:
    time.sleep(3600)


def _set_clock_back() -> None:
    now = time.time
    time.time = lambda: now() - 3600


def _break_nixl() -> None:
    def poll(*_: Any) -> None:
        raise RuntimeError("the fault suite has broken it")

    sys.modules["auricle.embeddings.nixl"].NixlEndpoint._poll_transfers = poll


def _fail_jobs() -> None:
    """Fail like a lost device, and like an engine that rejects every request."""

    def encode(*_: Any) -> None:
        raise RuntimeError("the fault suite has broken the device")

    async def generate(*_: Any, **__: Any) -> None:
        raise sys.modules["auricle.core.errors"].AuricleError(
            "the fault suite has broken the engine"
        )

    if (encoder := sys.modules.get("auricle.workers.encode.windowed")) is not None:
        encoder.WindowedEncoder.attend = encoder.WindowedEncoder.convolve = encode
    for kind, name in _ENGINES.items():
        if (engine := sys.modules.get(f"auricle.workers.pd.{kind}.engine")) is not None:
            getattr(engine, name).generate = generate


if _FOLDER:
    signal.signal(signal.SIGUSR2, _do)
