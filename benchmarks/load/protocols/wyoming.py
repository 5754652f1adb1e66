"""Wyoming over TCP, as Home Assistant speaks it: the audio, then one transcript."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any
from urllib.parse import urlsplit

from auricle.audio.pcm import Int16
from benchmarks.load.pacing import send_paced
from benchmarks.load.protocols import Target
from benchmarks.load.record import Failed, Record, TextEvent
from models.training.corpus import SAMPLE_RATE

_FORMAT = {"rate": SAMPLE_RATE, "width": 2, "channels": 1}
_ANSWER_SECONDS = 60.0


async def run(target: Target, record: Record) -> None:
    """One session; its text is final from its only event."""
    address = urlsplit(target.url)
    try:
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
    except OSError as error:
        raise Failed(f"no connection: {error}") from None
    try:

        async def packet(pcm: Int16) -> None:
            await _send(writer, "audio-chunk", _FORMAT, pcm.tobytes())

        await _send(writer, "transcribe", {"language": "en"})
        await _send(writer, "audio-start", _FORMAT)
        await send_paced(record, packet)
        await _send(writer, "audio-stop", {})
        record.stopped_at = time.monotonic()
        async with asyncio.timeout(_ANSWER_SECONDS):
            record.text = await _transcript(reader)
    except (OSError, EOFError, ValueError, TimeoutError) as error:
        raise Failed(f"{type(error).__name__}: {error}") from None
    finally:
        writer.close()
    record.finished_at = time.monotonic()
    record.events.append(TextEvent(record.finished_at, 0, record.text, "", True, None))


async def _send(
    writer: asyncio.StreamWriter, kind: str, data: dict[str, Any], payload: bytes = b""
) -> None:
    header: dict[str, Any] = {"type": kind, "data": data}
    if payload:
        header["payload_length"] = len(payload)
    writer.write(json.dumps(header).encode() + b"\n" + payload)
    await writer.drain()


async def _transcript(reader: asyncio.StreamReader) -> str:
    """Return the text of the first transcript; other events are skipped."""
    while True:
        header = json.loads(await reader.readuntil(b"\n"))
        data = dict(header.get("data") or {})
        if length := header.get("data_length"):
            data |= json.loads(await reader.readexactly(length))
        await reader.readexactly(header.get("payload_length") or 0)
        if header["type"] == "transcript":
            return str(data["text"]).strip()
