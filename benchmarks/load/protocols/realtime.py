"""OpenAI's realtime transcription, `WS /v1/realtime`.

Its events do not report how much audio they cover, so lag is measured by words only.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable

import soxr

from auricle.audio.pcm import Int16, to_float, to_int16
from benchmarks.load.pacing import send_paced
from benchmarks.load.protocols import Target
from benchmarks.load.protocols.socket import OPEN_SECONDS, Message, connected, converse, receive
from benchmarks.load.record import Failed, Record, Refused, TextEvent
from models.training.corpus import SAMPLE_RATE

_RATE = 24_000  # the protocol's rate
_PREFIX = "conversation.item.input_audio_transcription."


async def run(target: Target, record: Record, shown: Callable[[str], str] = str) -> None:
    """One session; the last turn is committed when the audio ends.

    `shown` returns the part of a turn's text that a user would see.
    """
    async with connected(f"{target.url}/v1/realtime?intent=transcription") as socket:
        first = await receive(socket, OPEN_SECONDS)
        if first["type"] == "error":
            _fail(first["error"])
        session = {
            "type": "transcription",
            "audio": {
                "input": {
                    "format": {"type": "audio/pcm", "rate": _RATE},
                    "transcription": {"model": target.model, "language": "en"},
                    # Manual: the whole session is one turn, which the client commits.
                    "turn_detection": None,
                }
            },
        }
        await socket.send(json.dumps({"type": "session.update", "session": session}))
        resampler = soxr.ResampleStream(SAMPLE_RATE, _RATE, 1, dtype="float32")
        heard = _Heard(record, shown)

        async def append(pcm: Int16, last: bool = False) -> None:
            resampled = to_int16(resampler.resample_chunk(to_float(pcm), last=last))
            audio = base64.b64encode(resampled.tobytes())
            await socket.send(
                json.dumps({"type": "input_audio_buffer.append", "audio": audio.decode()})
            )

        async def send() -> None:
            await send_paced(record, append)
            await append(record.plan.pcm[:0], last=True)
            await socket.send('{"type": "input_audio_buffer.commit"}')
            record.stopped_at = time.monotonic()

        await converse(record, socket, send, heard.hear)


class _Heard:
    """Joins the deltas of a turn."""

    def __init__(self, record: Record, shown: Callable[[str], str]) -> None:
        self._record = record
        self._shown = shown
        self._committed = ""

    def hear(self, message: Message, now: float) -> bool:
        """Take a message; return True once the turn's text is complete."""
        kind = message["type"]
        if kind == "error":
            _fail(message["error"])
        if kind == f"{_PREFIX}failed":
            raise Failed(str(message["error"]["message"]))
        if kind == f"{_PREFIX}delta":
            self._committed += message["delta"]
            self._event(now, "")
        elif kind == "auricle.transcription.partial":
            self._event(now, message["partial"])
        elif kind == f"{_PREFIX}completed":
            text = self._shown(message["transcript"])
            self._record.events.append(TextEvent(now, 0, text, "", True, None))
            self._record.text, self._record.finished_at = text, now
            return True
        return False

    def _event(self, now: float, partial: str) -> None:
        shown = self._shown(self._committed)
        self._record.events.append(TextEvent(now, 0, shown, partial, False, None))


def _fail(error: Message) -> None:
    if error.get("code") in ("overloaded", "rate_limited"):
        raise Refused(str(error["message"]), float(error.get("retry_after_seconds") or 1.0))
    raise Failed(str(error["message"]))
