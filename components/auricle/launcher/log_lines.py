"""Converts the log lines of processes to JSON objects, one per line. No I/O."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# Prefixes of other libraries' log lines: `WARNING:`, `2026-… ERROR`, glog's `W1122 03:27:37`.
_LEVEL = re.compile(
    r"^\W{0,2}(?:[\dT:.,Z+-]+\s+){0,2}(DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b"
    r"|^\[?([DIWEF])\d{4} "
)
_NAMES = {
    "WARN": "WARNING",
    "FATAL": "CRITICAL",
    **{"D": "DEBUG", "I": "INFO", "W": "WARNING", "E": "ERROR", "F": "CRITICAL"},
}


def plain(line: str) -> str:
    """Return the line without ANSI escape codes."""
    return _ANSI.sub("", line)


def is_of_one_request(line: str) -> bool:
    """Return whether this is a line that Dynamo logs for every request, whatever DYN_LOG is."""
    return "request_span" in line and (" INFO" in plain(line) or '"INFO"' in line)


def as_json(process: str, line: str) -> str:
    """Return one line of the output of `process` as a JSON object.

    A JSON object keeps its fields and gets `component` and `process`. Other text becomes
    `message`; its level is parsed from its beginning and is INFO by default.
    """
    text = plain(line)
    entry = _object(text)
    if entry is None:
        entry = {"time": datetime.now(UTC).isoformat(), "level": _level(text), "message": text}
    # Dynamo's objects use `component` in another sense and other names of levels.
    entry["component"] = process.partition("-")[0]
    entry["process"] = process
    entry["level"] = _NAMES.get(level := str(entry.get("level", "INFO")), level)
    return json.dumps(entry, ensure_ascii=False)


def _object(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _level(text: str) -> str:
    found = _LEVEL.match(text)
    if found is None:
        return "INFO"
    name = found.group(1) or found.group(2)
    return _NAMES.get(name, name)
