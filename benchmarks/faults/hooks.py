"""Commands to a process of the graph to disturb itself (`site/sitecustomize.py`)."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import psutil

SITE = Path(__file__).parent / "site"


def environment(folder: Path) -> dict[str, str]:
    """Return the environment in which a graph's processes take commands from `folder`."""
    paths = [str(SITE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths), "AURICLE_FAULTS": str(folder)}


def order(folder: Path, process: psutil.Process, action: str) -> None:
    """Make the process run one of the actions of `site/sitecustomize.py`, within moments."""
    (folder / str(process.pid)).write_text(json.dumps({"action": action}))
    process.send_signal(signal.SIGUSR2)
