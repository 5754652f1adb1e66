"""gRPC of asr-concurrent-stream: packets of a stream, partial transcripts, and a last one."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import grpc

from auricle.tools.load_generation.pacing import paced
from benchmarks.load.protocols import Target
from benchmarks.load.record import Failed, Record, TextEvent
from models.training.corpus import SAMPLE_RATE
from models.training.packages import from_pypi, imported

PACKAGE = "asr-concurrent-stream==1.0.11"
_CHUNK_SECONDS = 1.0  # as its documentation recommends
_SECONDS = 120.0


@lru_cache
def _messages() -> tuple[Any, Any]:
    """Return the project's own generated messages and its client class."""
    folder = from_pypi("asr-concurrent-stream", (PACKAGE,))
    messages = imported(folder, "proto.asr_pb2")
    return messages, imported(folder, "proto.asr_pb2_grpc").ASRServiceStub


async def run(target: Target, record: Record) -> None:
    """One session is one stream, without the voice activity of its example client."""
    messages, stub_class = _messages()
    name = str(uuid.uuid4())
    async with grpc.aio.insecure_channel(urlsplit(target.url).netloc) as channel:
        stub = stub_class(channel)
        try:
            start = messages.StreamStartRequest(
                stream_id=name,
                language=target.language or "",
                config=messages.StreamConfig(chunk_size_sec=_CHUNK_SECONDS),
            )
            answer = await stub.StartStream(start, timeout=_SECONDS)
            if not answer.success:
                raise Failed(answer.error)
            call = stub.StreamTranscribe(
                _packets(record, messages, name), timeout=record.plan.seconds + _SECONDS
            )
            async for found in call:
                now, text = time.monotonic(), found.partial_transcript.strip()
                shown = (text, "", True) if found.is_final else ("", text, False)
                record.events.append(TextEvent(now, 0, *shown, None))
                if found.is_final:
                    record.text, record.finished_at = text, now
        except grpc.aio.AioRpcError as error:
            raise Failed(f"{error.code().name}: {error.details()}") from None
    if not record.finished_at:
        raise Failed("the stream ended without a final transcript")


async def _packets(record: Record, messages: Any, name: str) -> AsyncIterator[Any]:
    """Yield a packet when it has been spoken; the last one ends the stream."""
    size = round(record.packet_seconds * SAMPLE_RATE)
    count = -(-len(record.plan.pcm) // size)
    number = 0
    async for due, pcm in paced(record.plan.pcm, size, time.monotonic()):
        number += 1
        record.due_at.append(due)
        record.sent_at.append(time.monotonic())
        if number == count:
            record.stopped_at = record.sent_at[-1]
        yield messages.AudioChunkRequest(
            stream_id=name,
            chunk_id=number - 1,
            audio_data=pcm.tobytes(),
            sample_rate=SAMPLE_RATE,
            is_final=number == count,
        )
