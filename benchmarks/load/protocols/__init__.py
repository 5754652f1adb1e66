"""One module per protocol: each runs one session and records its events."""

from __future__ import annotations

import importlib
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


_MODULES = {
    "stream": "stream",
    "realtime": "realtime",
    "vllm-realtime": "vllm_realtime",
    "dynamo-realtime": "dynamo_realtime",
    "transcriptions": "transcriptions",
    "whisperlivekit": "whisperlivekit",
    "whisper-live": "whisper_live",
    "wyoming": "wyoming",
    "asr-concurrent-stream": "asr_concurrent",
}
NAMES = tuple(_MODULES)


def protocol(name: str) -> RunSession:
    """Return the function that runs one session of a protocol, one of NAMES.

    `stream` is ours and the baselines', `realtime` and `transcriptions` (the whole recording at
    once) are OpenAI's. A server with a protocol of its own has its name.
    """
    run: RunSession = importlib.import_module(f"{__name__}.{_MODULES[name]}").run
    return run
