"""Processes with a lower priority, on a kernel that shares cores among processes or sessions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit
AUTOGROUP = Path("/proc/self/autogroup")
PROGRAM = """
import os
from pathlib import Path
from auricle.process.resources import lower_priority
before = os.nice(0)
lower_priority(2)
group = Path("/proc/self/autogroup")
print(os.nice(0) - before, *(group.read_text().split()[-1:] if group.exists() else ()))
"""


def niceness(*, own_session: bool) -> list[str]:
    """The niceness of a process after `lower_priority`, and of its session if it has one.

    The kernel's file is empty for a process without a session.
    """
    command = [sys.executable, "-c", PROGRAM]
    run = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        start_new_session=own_session,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


@pytest.mark.skipif(not AUTOGROUP.exists(), reason="this kernel has no autogroups")
def test_a_process_with_a_session_of_its_own_gives_way_to_other_sessions() -> None:
    assert niceness(own_session=True) == ["2", "2"]


def test_nobody_elses_session_gives_way_with_a_process() -> None:
    before = AUTOGROUP.read_text().split()[-1:] if AUTOGROUP.exists() else []
    assert niceness(own_session=False) == ["2", *before]
