"""The question whether a process answers, which every component takes."""

from __future__ import annotations

import msgspec


class AskAlive(msgspec.Struct, frozen=True, tag=True):
    """Any process → any other; its event loop answers with `Alive`."""


class Alive(msgspec.Struct, frozen=True, tag=True):
    """The process answers. `part` has owed it an answer for `silent_seconds`, longer than any other
    of its parts (threads, vLLM's engine)."""

    silent_seconds: float
    part: str
