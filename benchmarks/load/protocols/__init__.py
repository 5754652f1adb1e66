"""One module per protocol: each runs one session and records its events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from benchmarks.load.record import Record


@dataclass(frozen=True)
class Target:
    """A server: its HTTP address, the model's name there, and the requested cadence.

    Without `endpointing` all audio is decoded, silence included (`stream` only); `language` None is
    detected (`stream`). `key` is the API key, if the server requires one. `words`, `diarize` and
    `translate` request annotations (ours only).
    """

    url: str
    model: str
    chunk_ms: int = 640
    endpointing: bool = True
    language: str | None = "English"
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
