"""WhisperLive's WebSocket with 16-bit PCM (`raw_pcm_input`).

It decodes the audio since the last completed segment again and again, and sends no message when
the audio has ended. A client can only wait: the text is final once it has stayed the same for
`_STILL_SECONDS`, and counts from when it last changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid

import websockets

from auricle.audio.pcm import Int16
from benchmarks.load.pacing import send_paced
from benchmarks.load.protocols import Target
from benchmarks.load.protocols.socket import OPEN_SECONDS, Message, Socket, connected, receive
from benchmarks.load.record import Failed, Record, Refused, TextEvent

_STILL_SECONDS = 3.0
_SECONDS_PER_MINUTE = 60.0
_KEPT_SEGMENTS = 1_000  # all of a session, so that a message has the whole text


async def run(target: Target, record: Record) -> None:
    """One session."""
    async with connected(target.url) as socket:
        options = {
            "uid": str(uuid.uuid4()),
            "language": "en",
            "task": "transcribe",
            "model": target.model,
            "use_vad": True,
            "send_last_n_segments": _KEPT_SEGMENTS,
        }
        await socket.send(json.dumps(options))
        while (first := await receive(socket, OPEN_SECONDS)).get("message") != "SERVER_READY":
            _check(first)
        reading = asyncio.create_task(_read(record, socket))
        try:
            await send_paced(record, lambda pcm: _packet(socket, pcm))
            record.stopped_at = time.monotonic()
            await _until_still(record, reading)
            await socket.send(b"END_OF_AUDIO")
        except websockets.ConnectionClosed as error:
            raise Failed(f"the connection ended: {error}") from None
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
    last = record.events[-1] if record.events else None
    record.text = (last.committed + last.partial).strip() if last else ""
    record.finished_at = _changed(record)
    record.events.append(TextEvent(record.finished_at, 0, record.text, "", True, None))


async def _until_still(record: Record, reading: asyncio.Task[None]) -> None:
    while (left := _changed(record) + _STILL_SECONDS - time.monotonic()) > 0:
        done, _ = await asyncio.wait({reading}, timeout=left)
        if done:
            return


def _changed(record: Record) -> float:
    """Return when the text changed last, or the audio ended, if that was later."""
    return max(record.stopped_at, record.events[-1].at if record.events else 0.0)


async def _packet(socket: Socket, pcm: Int16) -> None:
    await socket.send(pcm.tobytes())


async def _read(record: Record, socket: Socket) -> None:
    shown = ("", "")
    with contextlib.suppress(Failed):  # the server closes the connection without a last message
        while True:
            message = await receive(socket, record.plan.seconds + OPEN_SECONDS)
            texts = _shown(message)
            if "segments" in message and texts != shown:
                shown = texts
                record.events.append(TextEvent(time.monotonic(), 0, *texts, False, None))


def _shown(message: Message) -> tuple[str, str]:
    segments = message.get("segments", ())
    kept = " ".join(s["text"].strip() for s in segments if s["completed"])
    rest = " ".join(s["text"].strip() for s in segments if not s["completed"])
    return kept, f" {rest}".rstrip()


def _check(message: Message) -> None:
    if message.get("status") == "WAIT":
        raise Refused("full", _SECONDS_PER_MINUTE * float(message["message"]))
    if message.get("status") == "ERROR":
        raise Failed(str(message["message"]))
