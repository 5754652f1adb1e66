"""WhisperLiveKit's `WS /asr` with raw PCM (`--pcm-input`).

Every message has the whole transcript: lines that stay, and a buffer that may change. An empty
packet ends the audio, and `ready_to_stop` follows the last text.
"""

from __future__ import annotations

import time

from auricle.audio.pcm import Int16
from benchmarks.load.pacing import send_paced
from benchmarks.load.protocols import Target
from benchmarks.load.protocols.socket import OPEN_SECONDS, Message, connected, converse, receive
from benchmarks.load.record import Failed, Record, TextEvent


async def run(target: Target, record: Record) -> None:
    """One session."""
    async with connected(f"{target.url}/asr") as socket:
        await receive(socket, OPEN_SECONDS)
        shown = ("", "")

        async def packet(pcm: Int16) -> None:
            await socket.send(pcm.tobytes())

        async def send() -> None:
            await send_paced(record, packet)
            await socket.send(b"")
            record.stopped_at = time.monotonic()

        def hear(message: Message, now: float) -> bool:
            nonlocal shown
            if message.get("type") == "ready_to_stop":
                last = max((event.at for event in record.events), default=now)
                record.events.append(TextEvent(last, 0, " ".join(shown).strip(), "", True, None))
                record.text, record.finished_at = record.events[-1].committed, now
                return True
            if message.get("error"):
                raise Failed(str(message["error"]))
            texts = _shown(message)
            if texts != shown:
                shown = texts
                record.events.append(TextEvent(now, 0, *texts, False, None))
            return False

        await converse(record, socket, send, hear)


def _shown(message: Message) -> tuple[str, str]:
    """Return the lines (lines for silence have no text) and the buffer."""
    lines = (line["text"].strip() for line in message.get("lines", ()) if line.get("text"))
    return " ".join(lines), f" {message.get('buffer_transcription', '').strip()}".rstrip()
