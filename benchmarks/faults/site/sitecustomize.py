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

# Classes whose methods fail after an action, and the methods.
NIXL = ("auricle.embeddings.nixl", "NixlEndpoint", "_poll_notices")
ENCODER = ("auricle.workers.encode.encoder", "AudioEncoder", "attend")
ENGINES = (
    ("auricle.workers.pd.vllm.engine", "VllmEngine", "generate"),
    ("auricle.workers.pd.sglang.engine", "SglangEngine", "generate"),
    # Of transformers and CTranslate2.
    ("auricle.workers.pd.threaded", "ThreadedEngine", "generate"),
)
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

    for owner, method in _loaded(NIXL):
        setattr(owner, method, poll)


def _fail_jobs() -> None:
    """Fail like a lost device, and like an engine that rejects every request."""

    def encode(*_: Any) -> None:
        raise RuntimeError("the fault suite has broken the device")

    async def generate(*_: Any, **__: Any) -> None:
        raise sys.modules["auricle.core.errors"].AuricleError(
            "the fault suite has broken the engine"
        )

    for base, method in _loaded(ENCODER):
        for owner in base.__subclasses__():
            setattr(owner, method, encode)
    for owner, method in _loaded(*ENGINES):
        setattr(owner, method, generate)


def _loaded(*targets: tuple[str, str, str]) -> list[tuple[Any, str]]:
    """Return the classes that this process has imported, with their methods."""
    return [
        (getattr(sys.modules[module], name), method)
        for module, name, method in targets
        if module in sys.modules
    ]


if _FOLDER:
    signal.signal(signal.SIGUSR2, _do)
