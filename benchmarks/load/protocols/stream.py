"""`WS /v1/audio/stream`: ours, and the baselines behind the same messages."""

from __future__ import annotations

import json
import time

from auricle.audio.pcm import Int16
from benchmarks.load.pacing import send_paced
from benchmarks.load.protocols import Target
from benchmarks.load.protocols.socket import OPEN_SECONDS, Message, connected, converse, receive
from benchmarks.load.record import Failed, Record, Refused, TextEvent
from models.training.corpus import SAMPLE_RATE


async def run(target: Target, record: Record) -> None:
    """One session."""
    wanted = {
        "language": target.language,
        "words": target.words,  # the baselines have no such option
        "diarize": target.diarize,
        "translate": list(target.translate),
    }
    start = {
        "type": "start",
        "sample_rate": SAMPLE_RATE,
        "chunk_ms": target.chunk_ms,
        "endpointing": {"enabled": target.endpointing},
        **{name: value for name, value in wanted.items() if value},
    }
    async with connected(f"{target.url}/v1/audio/stream", target.key) as socket:

        async def send() -> None:
            await send_paced(record, packet)
            await socket.send('{"type": "end"}')
            record.stopped_at = time.monotonic()

        async def packet(pcm: Int16) -> None:
            await socket.send(pcm.tobytes())

        def hear(message: Message, now: float) -> bool:
            _check(message)
            if message["type"] == "partial":
                text = message["committed"], message["partial"], False
                covered = message["audio_ms"] / 1000
                record.events.append(TextEvent(now, message["segment"], *text, covered))
            elif message["type"] == "final":
                text, end = (message["text"], "", True), message["end_ms"] / 1000
                begins = message["start_ms"] / 1000
                record.events.append(TextEvent(now, message["segment"], *text, end, begins))
            elif message["type"] == "done":
                record.text, record.finished_at = message["text"], now
                return True
            return False

        await socket.send(json.dumps(start))
        ready = await receive(socket, OPEN_SECONDS)
        _check(ready)
        record.chunk_seconds = ready["chunk_ms"] / 1000
        await converse(record, socket, send, hear)


def _check(message: Message) -> None:
    if message["type"] == "error":
        if message["code"] in ("overloaded", "rate_limited"):
            raise Refused(message["message"], float(message.get("retry_after_seconds") or 1.0))
        raise Failed(f"{message['code']}: {message['message']}")
