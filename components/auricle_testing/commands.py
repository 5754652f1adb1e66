"""The `auricle` command as a user types it."""

from __future__ import annotations

import subprocess
import sys

from auricle_testing.server import READY_SECONDS, ROOT


def auricle(*arguments: str, seconds: float = READY_SECONDS) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own; the result has its output and exit status."""
    command = [sys.executable, "-m", "auricle", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False
    )
