"""Stock vLLM's dialect of `/v1/realtime`: pieces of 5 s, each decoded once, text as deltas.

Its events do not report how much audio they cover, so lag is measured by words only.
"""

from __future__ import annotations

import base64
import json
import re
import time

from auricle.audio.pcm import Int16
from benchmarks.load.pacing import send_paced
from benchmarks.load.protocols import Target
from benchmarks.load.protocols.socket import OPEN_SECONDS, Message, connected, converse, receive
from benchmarks.load.record import Failed, Record, TextEvent

_MARKS = ("language English<asr_text>", "language English", "<asr_text>", "language None")
# The beginning of a mark. A word has a space before it, or is the first after a mark.
_BEGUN = re.compile(r"(?<![\s>])language$")


async def run(target: Target, record: Record) -> None:
    """One session."""
    async with connected(f"{target.url}/v1/realtime") as socket:
        await receive(socket, OPEN_SECONDS)
        await socket.send(json.dumps({"type": "session.update", "model": target.model}))
        await socket.send('{"type": "input_audio_buffer.commit", "final": false}')
        text = ""

        async def append(pcm: Int16) -> None:
            audio = base64.b64encode(pcm.tobytes()).decode()
            await socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))

        async def send() -> None:
            await send_paced(record, append)
            await socket.send('{"type": "input_audio_buffer.commit", "final": true}')
            record.stopped_at = time.monotonic()

        def hear(message: Message, now: float) -> bool:
            nonlocal text
            if message["type"] == "error":
                raise Failed(str(message["error"]))
            if message["type"] == "transcription.delta":
                text += message["delta"]
                record.events.append(TextEvent(now, 0, plain(text), "", False, None))
            elif message["type"] == "transcription.done":
                record.text = plain(message["text"])
                record.events.append(TextEvent(now, 0, record.text, "", True, None))
                record.finished_at = now
                return True
            return False

        await converse(record, socket, send, hear)


def plain(text: str) -> str:
    """Return the text without the model's marks, which stock vLLM includes, one set per 5 s."""
    text = _BEGUN.sub("", text)
    for mark in _MARKS:
        text = text.replace(mark, " ")
    return " ".join(text.split())
