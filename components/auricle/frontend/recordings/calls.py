"""gRPC calls with a recording in one message, whose answer is its text."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from auricle.core.aio import first_failure_or, in_thread, outcome_of, with_timeout
from auricle.core.errors import Overloaded
from auricle.frontend.audio.endpointing import EndpointingOptions
from auricle.frontend.frontend import Frontend
from auricle.frontend.recordings.requests import charged
from auricle.frontend.recordings.transcriber import (
    Recording,
    RecordingSegment,
    RecordingTranscriber,
    Whole,
)
from auricle.frontend.recordings.uploads import storing
from auricle.frontend.transport.access.gate import Access
from auricle.frontend.transport.access.limits import ClientAccount
from auricle.frontend.transport.grpc.incoming import Context, Incoming, only_message, warn
from auricle.frontend.transport.live_sessions import Record
from auricle.frontend.transport.slots import SessionSlots
from auricle.frontend.transport.stored_bytes import StoredUpload
from auricle.transcript.words import NO_ALIGNER

# A recording received in one message: its options, and its audio on disk.
#
# The file is anonymous, as uploads are: nothing is left behind if this process dies. The decoding
# process opens it through /proc.


@dataclass(frozen=True)
class Received:
    """A recording of `size` bytes; `warnings` name options that have no effect.

    `answer` returns the response for the segments with text. With `grid_words` segments have words
    with the times of decodes, with `words` also the aligner's, if there is one. Without
    `silence_ms` the server's endpointing applies.
    """

    file: IO[bytes]
    size: int
    answer: Callable[[Sequence[RecordingSegment]], bytes]
    model: str | None = None
    language: str | None = None
    context: str = ""
    silence_ms: int | None = None
    warnings: tuple[str, ...] = ()
    grid_words: bool = False
    words: bool = False

    @property
    def path(self) -> Path:
        """A path by which another process can open the file, until `close`."""
        return Path(f"/proc/{os.getpid()}/fd/{self.file.fileno()}")

    def close(self) -> None:
        self.file.close()


# Parses a call's message. It raises BadRequest, which names the wrong field, and StorageFull.
Receive = Callable[[bytes], Received]


def stored(*parts: bytes) -> IO[bytes]:
    """Return a file that holds `parts`. Raises StorageFull and Overloaded."""
    with storing():
        file: IO[bytes] = TemporaryFile()  # noqa: SIM115  # `Received.close` closes it
        for part in parts:
            file.write(part)
        file.flush()
    return file


_RECEIVING_BYTES = 1 << 30  # of all messages together, while they are received


class RecordingCalls:
    """Serves the calls of all protocols on one event loop.

    At most `max_recordings` complete recordings are processed at a time.
    """

    def __init__(
        self,
        frontend: Frontend,
        access: Access,
        transcriber: RecordingTranscriber,
    ) -> None:
        settings = frontend.settings
        self._frontend = frontend
        self._settings = settings
        self._access = access
        self._transcriber = transcriber
        self._sessions = frontend.live_sessions
        at_a_time = max(1, _RECEIVING_BYTES // settings.grpc_max_message_bytes)
        self._receiving = SessionSlots(min(settings.max_uploads, at_a_time))
        self._in_work = 0

    async def serve(
        self, incoming: Incoming, context: Context, protocol: str, received: Receive
    ) -> bytes:
        """Return the response of one call. Raises AuricleError if it fails or is refused.

        `received` parses the call's message, in a worker thread.
        """
        record = Record(protocol, incoming.address, "recording")
        with self._sessions.recorded(record):
            client = self._access.client(incoming.metadata, "recordings")
            self._check_room()  # before a client sends a recording that would be refused

            async def transcribe() -> bytes:
                with incoming.call.admitted():
                    return await self._transcribe(record, client, incoming, context, received)

            return await self._sessions.recording(record, client, transcribe)

    async def _transcribe(
        self,
        record: Record,
        client: ClientAccount,
        incoming: Incoming,
        context: Context,
        received: Receive,
    ) -> bytes:
        with (
            self._frontend.stored.upload(client.fairness_key(incoming.host)) as stored,
            closing(await self._received(client, incoming, context, received, stored)) as sent,
        ):
            warnings = self._frontend.check_model(sent.model)
            self._frontend.check_language(sent.language)
            aligned = sent.words and self._settings.align_model is not None
            self._frontend.check_words(aligned)
            client.check_size(sent.size, self._settings.max_upload_bytes)
            self._frontend.metrics.bytes("grpc", sent.size)
            recording = Recording(
                path=sent.path,
                name="the audio",
                language=sent.language,
                context=sent.context,
                endpointing=self._endpointing(sent.silence_ms),
                words=aligned,
                grid_words=sent.grid_words,
            )
            self._check_room()
            self._in_work += 1
            segments: list[RecordingSegment] = []
            missing: tuple[str, ...] = ()
            try:
                outputs = charged(self._transcriber, recording, record, client, incoming.host)
                async with aclosing(outputs) as texts:
                    async for output in texts:
                        if isinstance(output, Whole):
                            missing = output.warnings
                        elif output.text:
                            segments.append(output)
            finally:
                self._in_work -= 1
            await warn(context, (*warnings, *sent.warnings, *self._wordless(sent), *missing))
            return sent.answer(segments)

    async def _received(
        self,
        client: ClientAccount,
        incoming: Incoming,
        context: Context,
        received: Receive,
        stored: StoredUpload,
    ) -> Received:
        """Return the client's recording, on disk, once there is room to receive it."""
        slot = self._receiving.take(client.fairness_key(incoming.host))
        if slot is None:
            raise Overloaded(f"{self._receiving.limit} recordings are being received; try again")
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def preempt() -> None:
            lost.set_exception(
                Overloaded("this recording was ended in favour of a client with fewer; try again")
            )
            lost.exception()  # retrieved, so that asyncio does not log it

        slot.on_preempted(preempt)
        try:
            seconds = self._settings.idle_timeout_seconds
            reading = asyncio.create_task(
                with_timeout(seconds, only_message(context), "the recording")
            )
            data = await first_failure_or(reading, [asyncio.create_task(outcome_of(lost))])
            stored.add(len(data))
            return await in_thread(received, data)
        finally:
            slot.release()

    def _wordless(self, sent: Received) -> tuple[str, ...]:
        return (NO_ALIGNER,) if sent.words and self._settings.align_model is None else ()

    def _endpointing(self, silence_ms: int | None) -> EndpointingOptions | None:
        """Return the call's options, the server's as defaults; None to decode all audio."""
        enabled = None if silence_ms is None else True
        return EndpointingOptions.chosen(
            self._settings, enabled=enabled, min_silence_ms=silence_ms, recorded=True
        )

    def _check_room(self) -> None:
        if self._in_work >= self._settings.max_recordings:
            raise Overloaded(
                f"{self._settings.max_recordings} recordings are in progress; try again"
            )
