"""How a process reports its status to the launcher: as a line on standard output."""

from __future__ import annotations

import logging
import os

log = logging.getLogger(__name__)
_STATUS_PREFIX = "AURICLE_STATUS "
_ALIVE = "AURICLE_ALIVE"


def report_status(text: str) -> None:
    """Report this process's status to the launcher; without a launcher, log it.

    `ready` means that the process serves.
    """
    if os.environ.get("AURICLE_SUPERVISED"):
        print(f"{_STATUS_PREFIX}{text}", flush=True)
    else:
        log.info("status: %s", text)


def parse_status(line: str) -> str | None:
    """Return the status that a line of a component's output reports; None if it reports none."""
    return line.removeprefix(_STATUS_PREFIX) if line.startswith(_STATUS_PREFIX) else None


def report_alive() -> None:
    """Tell the launcher, if there is one, that this process answers."""
    if os.environ.get("AURICLE_SUPERVISED"):
        print(_ALIVE, flush=True)


def says_alive(line: str) -> bool:
    """Whether a line of a component's output says that it answers."""
    return line == _ALIVE
