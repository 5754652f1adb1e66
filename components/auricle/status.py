"""How a process tells the launcher what it is doing: a line on standard output."""

from __future__ import annotations

import logging
import os

log = logging.getLogger(__name__)
_STATUS_PREFIX = "AURICLE_STATUS "


def report_status(text: str) -> None:
    """Tell the launcher, if there is one, what this process is doing; `ready` is the last word."""
    if os.environ.get("AURICLE_SUPERVISED"):
        print(f"{_STATUS_PREFIX}{text}", flush=True)
    else:
        log.info("status: %s", text)


def parse_status(line: str) -> str | None:
    """The status in a line of a component's output, if it is one."""
    return line.removeprefix(_STATUS_PREFIX) if line.startswith(_STATUS_PREFIX) else None
