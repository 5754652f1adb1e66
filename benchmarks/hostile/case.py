"""A case, and the verdict on what came back. No I/O.

A case is a function of its area, the seed and its number, so that any one of them can be made
again alone, without those before it (Hypothesis and atheris choose an example from the ones
before it). They would have no use for what they are best at either: what they steer by, the
branches taken or a failing assertion, is in other processes here, partly in C and Rust.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_ID = re.compile(r"([a-z0-9_]+)-(\d+)-(\d+)")


@dataclass(frozen=True)
class Case:
    """One hostile input. `kind` groups cases; `data` is what the area's attacker sends."""

    area: str
    seed: int
    number: int
    kind: str
    data: Any

    @property
    def id(self) -> str:
        """The name under which `--replay` repeats the case."""
        return f"{self.area}-{self.seed}-{self.number}"


Generate = Callable[[random.Random], tuple[str, Any]]


def make(area: str, seed: int, number: int, generate: Generate) -> Case:
    """Return the case with that number."""
    kind, data = generate(random.Random(f"{area}:{seed}:{number}"))
    return Case(area, seed, number, kind, data)


def cases(area: str, seed: int, count: int, generate: Generate) -> Iterator[Case]:
    """Yield the first `count` cases of an area."""
    return (make(area, seed, number, generate) for number in range(count))


def parse_id(text: str) -> tuple[str, int, int]:
    """Return area, seed and number of a case's id. Raises ValueError."""
    found = _ID.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no case; ids look like frames-1-42")
    return found.group(1), int(found.group(2)), int(found.group(3))


class Verdict(StrEnum):
    """What became of a case.

    The first four are as they should be. `waited`: the server waited for more, and closed once
    the attacker did. `busy`: it said when to come again, and still did when asked again, so that
    the case was not tried. `lost`: the attacker itself failed; says nothing of the server.
    """

    ANSWERED = "answered"
    REFUSED = "refused"
    WAITED = "waited"
    CLOSED = "closed"
    BUSY = "busy"
    HANG = "hang"
    FAILED = "failed"
    LEAKED = "leaked"
    LOST = "lost"


TRIED = frozenset(Verdict) - {Verdict.BUSY, Verdict.LOST}
UNEXPECTED = frozenset({Verdict.HANG, Verdict.FAILED, Verdict.LEAKED})

# What no client is to see: an exception's own words, paths, the names of our libraries' types.
_INSIDES = re.compile(
    rb"Traceback|Exception\b|\b[A-Z]\w+Error\b|/components/|site-packages|\.py\b|object at 0x"
    rb"|\bmsgspec\b|\bpydantic\b|numpy\.|NoneType"
)
# An error names the wrong value; a client that sent a megabyte does not get it back.
LONGEST_ERROR = 4096


@dataclass(frozen=True)
class Outcome:
    """The verdict on one case; `detail` is of the answer, for people."""

    verdict: Verdict
    detail: str = ""


def leak(error: bytes) -> str | None:
    """Return what an error's text shows that it must not, if anything."""
    if found := _INSIDES.search(error):
        start = max(0, found.start() - 40)
        return f"shows {error[start : found.end() + 40]!r}"
    if len(error) > LONGEST_ERROR:
        return f"an error of {len(error)} bytes"
    return None


def of_http(status: int, body: bytes, retry_after: bool) -> Outcome:
    """Judge an HTTP answer.

    503 and 429 with Retry-After are how a full server refuses, and 504 how it ends a client that
    stalls. Any other status from 500 on is a failure of the server.
    """
    detail = f"{status} {body[:200]!r}"
    if status in (429, 503) and retry_after:
        return Outcome(Verdict.BUSY, detail)
    if status >= 500 and not (status == 504 and b'"deadline"' in body):
        return Outcome(Verdict.FAILED, detail)
    if status >= 400:
        if found := leak(body):
            return Outcome(Verdict.LEAKED, f"{status} {found}")
        return Outcome(Verdict.REFUSED, detail)
    return Outcome(Verdict.ANSWERED, detail)


def of_close(code: int, reason: bytes, error: bytes) -> Outcome:
    """Judge the end of a WebSocket session: its close code, reason and last error message."""
    detail = f"close {code} {reason[:120]!r} {error[:200]!r}"
    if code == 1013:
        return Outcome(Verdict.BUSY, detail)
    if code in (1011, 3005):  # AssemblyAI has a code of its own
        return Outcome(Verdict.FAILED, detail)
    if found := leak(error) or leak(reason):
        return Outcome(Verdict.LEAKED, f"close {code} {found}")
    return Outcome(Verdict.REFUSED if code != 1000 else Verdict.ANSWERED, detail)
