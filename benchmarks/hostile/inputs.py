"""Inputs, a type for each transport, and cases: inputs with an identity.

Inputs are plain data: Hypothesis draws them, and recorded.jsonl stores them as JSON. A case is a
function of its area, seed and number, so that `--replay ID` sends it again alone: the entropy of a
draw comes from a random number generator with these as its seed.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

_ID = re.compile(r"([a-z0-9_]+)-(\d+)-(\d+)")
_ENTROPY_BYTES, _TRIES = 1 << 16, 20
RAW = -1


class Session(msgspec.Struct, frozen=True, tag=True):
    """Messages of a WebSocket session: opcodes and payloads, or bytes with the opcode RAW.

    With `spoken`, a recording is sent before the last one.
    """

    path: str
    sent: tuple[tuple[int, bytes], ...]
    spoken: bool = False
    extensions: str = ""


class Post(msgspec.Struct, frozen=True, tag=True):
    """An HTTP request with a body."""

    path: str
    content_type: bytes
    body: bytes


class Leaving(msgspec.Struct, frozen=True, tag=True):
    """A client that leaves a streamed transcription, after a share of its body, time, or events."""

    body: float = 1.0
    seconds: float = 0.0
    events: int = 0
    abrupt: bool = False


class Stream(msgspec.Struct, frozen=True, tag=True):
    """Bytes for a TCP port of `Target.place`, in pieces."""

    port: str
    pieces: tuple[bytes, ...]
    which: float = 0.0


class Call(msgspec.Struct, frozen=True, tag=True):
    """A gRPC call; with `ends` the client closes its side after the messages."""

    method: str
    messages: tuple[bytes, ...]
    metadata: tuple[tuple[str, str], ...] = ()
    ends: bool = True


class Lie(msgspec.Struct, frozen=True, tag=True):
    """A request within the graph, as msgpack, under one of `strategies.inside.SEALS`.

    WITNESS stands for the witness's session, admission or tenant. Load reports are published. An
    answer may take `seconds`, if that is longer than for other inputs.
    """

    component: str
    endpoint: str
    packed: bytes
    seal: str
    seconds: float = 0.0


class Resumption(msgspec.Struct, frozen=True, tag=True):
    """A resumed session; the defaults are valid.

    `token` is a key of `strategies.resumes.STARTS`; `damage` is the seed of its changes, 0 for
    none. `resume` is JSON with TOKEN and FROM, empty for none, `start` has different fields.
    `packets` follow, and the end if `ends`, on each of `at_once` connections. `refused`: the server
    must reject it.
    """

    token: str = "spoken"
    damage: int = 0
    resume: str = '{"token": "TOKEN", "from_sample": "FROM"}'
    start: dict[str, Any] = {}
    packets: tuple[bytes, ...] = ()
    ends: bool = True
    at_once: int = 1
    path: str = "/v1/audio/stream?resume=true"
    refused: bool = True


Input = Session | Post | Leaving | Stream | Call | Lie | Resumption


@dataclass(frozen=True)
class Case:
    """One hostile input, and the verdict that a recorded one must have."""

    area: str
    seed: int
    number: int
    input: Input
    right: str = ""

    @property
    def id(self) -> str:
        """The name with which `--replay` repeats the case."""
        return f"{self.area}-{self.seed}-{self.number}"


class _Record(msgspec.Struct, frozen=True):
    area: str
    right: str
    why: str
    input: Input


@cache
def recorded(area: str) -> tuple[Case, ...]:
    """The recorded regressions of an area, as cases of the seed 0."""
    lines = (Path(__file__).parent / "recorded.jsonl").read_bytes().splitlines()
    records = [msgspec.json.decode(line, type=_Record) for line in lines]
    here = [one for one in records if one.area == area]
    return tuple(Case(area, 0, number, one.input, one.right) for number, one in enumerate(here))


@cache
def _drawn(strategy: st.SearchStrategy[Input]) -> Callable[[bytes], list[Input]]:
    """Return a function that makes an input of entropy; it returns none if that is rejected."""
    made: list[Input] = []

    @settings(database=None)
    @given(strategy)
    def take(one: Input) -> None:
        made.append(one)

    draw = take.hypothesis.fuzz_one_input

    def drawn(entropy: bytes) -> list[Input]:
        made.clear()
        draw(entropy)
        return made

    return drawn


def make(area: str, seed: int, number: int, strategy: st.SearchStrategy[Input]) -> Case:
    """Return the case of an area with that number."""
    if seed == 0:
        return recorded(area)[number]
    draw, rng = _drawn(strategy), random.Random(f"{area}:{seed}:{number}")
    for _ in range(_TRIES):
        if found := draw(rng.randbytes(_ENTROPY_BYTES)):
            return Case(area, seed, number, found[0])
    raise ValueError(f"{area} rejects nearly all entropy")


def cases(area: str, seed: int, count: int, strategy: st.SearchStrategy[Input]) -> Iterator[Case]:
    """Yield `count` cases of an area: first the recorded ones."""
    before = recorded(area)[:count]
    yield from before
    yield from (make(area, seed, number, strategy) for number in range(count - len(before)))


def parse_id(text: str) -> tuple[str, int, int]:
    """Return area, seed and number of a case's id. Raises ValueError."""
    found = _ID.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a case; ids look like frames-1-42")
    return found.group(1), int(found.group(2)), int(found.group(3))
