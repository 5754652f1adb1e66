"""One module per protocol: each runs one session and records what a client sees."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from benchmarks.load.record import Record


@dataclass(frozen=True)
class Target:
    """A server: its HTTP address, the model's name there, and the cadence to ask for.

    Without `endpointing` all audio is to be decoded, silence included (`stream` only).
    `key` is the API key, where the server wants one. With `words` their times are asked for, with
    `diarize` who said them, with `translate` translations into these languages (ours).
    """

    url: str
    model: str
    chunk_ms: int = 640
    endpointing: bool = True
    key: str = ""
    words: bool = False
    diarize: bool = False
    translate: tuple[str, ...] = ()


RunSession = Callable[[Target, Record], Awaitable[None]]


def protocol(name: str) -> RunSession:
    """`stream` (ours and the baselines'), `realtime` (OpenAI), `vllm-realtime` or
    `transcriptions` (OpenAI, the whole recording at once)."""
    from benchmarks.load.protocols import realtime, stream, transcriptions, vllm_realtime

    known: dict[str, RunSession] = {
        "stream": stream.run,
        "realtime": realtime.run,
        "vllm-realtime": vllm_realtime.run,
        "transcriptions": transcriptions.run,
    }
    return known[name]


NAMES = ("stream", "realtime", "vllm-realtime", "transcriptions")
