"""The message of `Recognize`: parsed, checked and written to disk, in a worker thread.

The file is anonymous, as uploads are: nothing is left behind if this process dies. The decoding
process opens it through /proc.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from auricle.frontend.doors.rpc.schema import parsed
from auricle.frontend.recordings.storage import storing
from auricle.frontend.riva.options import RecognitionOptions, audio_format, parse_config
from auricle.frontend.riva.results import PACKAGE
from auricle.frontend.riva.wav import is_wav, wav_header
from auricle.text_bounds import EVENT_ID, check

_AUDIO_FIELD = 2


@dataclass(frozen=True)
class Received:
    """A recording of `size` bytes; `request` is the client's name for the call."""

    request: str | None
    options: RecognitionOptions
    size: int
    file: IO[bytes]

    @property
    def path(self) -> Path:
        """Where another process can open it, until `close`."""
        return Path(f"/proc/{os.getpid()}/fd/{self.file.fileno()}")

    def close(self) -> None:
        """Free the file."""
        self.file.close()


def received(data: bytes) -> Received:
    """Take a RecognizeRequest. Samples get a WAV header, so that they can be decoded as a file.

    Raises BadRequest, naming what is wrong, and StorageFull.
    """
    message = parsed(f"{PACKAGE}.RecognizeRequest", data, bulk=_AUDIO_FIELD)
    request = message.id.value if message.HasField("id") else None
    check("id", request, EVENT_ID)
    options = parse_config(message.config, streaming=False)
    audio: bytes = message.audio
    header = b""
    if options.encoding is not None and not is_wav(audio):
        header = wav_header(*audio_format(options, None), len(audio))
    return Received(request, options, len(audio), _written(header, audio))


def _written(header: bytes, audio: bytes) -> IO[bytes]:
    with storing():
        file: IO[bytes] = TemporaryFile()  # noqa: SIM115  # `Received.close` closes it
        file.write(header)
        file.write(audio)
        file.flush()
    return file
