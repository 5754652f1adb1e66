"""Baselines (a) and (b) as live servers, each a plain FastAPI WebSocket.

    python -m benchmarks.baselines.live --engine b --model models/demo --port 9000

Speaks the messages of `WS /v1/audio/stream`. Every chunk decodes all audio so far after a
forced prefix, as the published `streaming_transcribe` does. With `--segmented` auricle's
voice activity detection and segment rules bound that audio. To the baseline's advantage, chunks
that arrive during a decode are skipped, not queued, and it uses all cores as threads.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from fastapi import FastAPI, WebSocket, WebSocketDisconnect

from auricle.audio.segmentation import SHORTEST_SEGMENT
from auricle.config.settings import FrontendSettings
from benchmarks.baselines.live_engines import LiveEngine, open_engine
from benchmarks.baselines.live_segments import Endpointing, Whole, as_delivered
from benchmarks.baselines.published import ROLLBACK_TOKENS, SAMPLE_RATE, UNFIXED_CHUNKS

# Answers have the same bound as ours.
_MOST_TOKENS_PER_SECOND, _LEAST_TOKENS = 8.0, 16


@dataclass(frozen=True)
class Options:
    """Without `segments` a session is one growing piece of audio."""

    segments: FrontendSettings | None


@dataclass
class _Segment:
    """Audio from session sample `start` on, and its last hypothesis."""

    start: int
    audio: list[np.ndarray] = field(default_factory=list)
    samples: int = 0
    decoded: int = 0  # samples the last decode saw
    tokens: list[int] = field(default_factory=list)
    decodes: int = 0


class Session:
    """One connection: a reader task fills segments, and one loop decodes them."""

    def __init__(self, engine: LiveEngine, options: Options, socket: WebSocket) -> None:
        self._engine, self._options, self._socket = engine, options, socket
        self._gate = Endpointing(options.segments) if options.segments else Whole()
        self.finished: list[_Segment] = []
        self._open = _Segment(0)
        self._ended = False
        self._news = asyncio.Event()
        self._texts: list[str] = []
        self._chunk = 0

    async def run(self) -> None:
        """Serve the connection until the client has its final text."""
        await self._socket.accept()
        start = json.loads(await self._socket.receive_text())
        self._chunk = start["chunk_ms"] * SAMPLE_RATE // 1000
        await self._send(type="ready", session="s", model="baseline", chunk_ms=start["chunk_ms"])
        reader = asyncio.create_task(self._read())
        try:
            await self._decode()
            await self._send(type="done", text=" ".join(self._texts), usage={})
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def _read(self) -> None:
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect
            if message.get("text") is not None:
                for start, pcm, ends in self._gate.end():
                    self.heard(start, pcm, ends)
                self._ended = True
                self._news.set()
                return
            for start, pcm, ends in self._gate.push(np.frombuffer(message["bytes"], "<i2")):
                self.heard(start, pcm, ends)
            self._news.set()

    def heard(self, start: int, pcm: np.ndarray, ends: bool) -> None:
        """Take the next samples; a segment that ends with them waits in `finished`."""
        if not self._open.samples:
            self._open.start = start
        self._open.audio.append(pcm)
        self._open.samples += len(pcm)
        if ends:
            if self._open.samples >= SHORTEST_SEGMENT:  # as ours; speech may end right at a cut
                self.finished.append(self._open)
            self._open = _Segment(start + len(pcm))

    async def _decode(self) -> None:
        number = 0
        while True:
            await self._news.wait()
            self._news.clear()
            while self.finished:
                await self._final(self.finished.pop(0), number)
                number += 1
            if self._ended:
                if self._open.samples >= SHORTEST_SEGMENT:
                    await self._final(self._open, number)
                return
            segment = self._open
            if segment.samples // self._chunk > segment.decoded // self._chunk:
                end = segment.samples // self._chunk * self._chunk
                await self._hear(segment, end)
                await self._send(
                    type="partial",
                    segment=number,
                    committed="",
                    partial=self._engine.text(segment.tokens),
                    audio_ms=(segment.start + end) * 1000 // SAMPLE_RATE,
                )
                self._news.set()

    async def _final(self, segment: _Segment, number: int) -> None:
        await self._hear(segment, segment.samples)
        text = self._engine.text(segment.tokens)
        self._texts.append(text)
        end = (segment.start + segment.samples) * 1000 // SAMPLE_RATE
        await self._send(type="final", segment=number, text=text, start_ms=0, end_ms=end)

    async def _hear(self, segment: _Segment, end: int) -> None:
        """Decode the segment's first `end` samples again, after the forced prefix."""
        segment.audio = [np.concatenate(segment.audio)]
        samples = segment.audio[0][:end].astype(np.float32) / np.float32(32768.0)
        first = segment.decodes < UNFIXED_CHUNKS
        prefix = [] if first else segment.tokens[: max(0, len(segment.tokens) - ROLLBACK_TOKENS)]
        limit = int(_MOST_TOKENS_PER_SECOND * end / SAMPLE_RATE) - len(prefix)
        new = await self._engine.decode(samples, prefix, max(limit, _LEAST_TOKENS))
        segment.tokens, segment.decoded = [*prefix, *new], end
        segment.decodes += 1

    async def _send(self, **message: Any) -> None:
        await self._socket.send_text(json.dumps(message))


def create_app(engine: LiveEngine, options: Options) -> FastAPI:
    """Return the app of the baseline server."""
    app = FastAPI()

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.websocket("/v1/audio/stream")
    async def stream(socket: WebSocket) -> None:
        with contextlib.suppress(WebSocketDisconnect):
            await Session(engine, options, socket).run()

    return app


async def _serve(arguments: argparse.Namespace) -> None:
    engine = await open_engine(arguments.engine, arguments.model, arguments.threads)
    segments = as_delivered() if arguments.segmented else None
    options = Options(segments)
    config = uvicorn.Config(
        create_app(engine, options), host="127.0.0.1", port=arguments.port, log_level="warning"
    )
    await uvicorn.Server(config).serve()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=("a", "b"), required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--segmented", action="store_true")
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
