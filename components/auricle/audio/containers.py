"""Opens an untrusted recording with FFmpeg: which containers and codecs, and nothing else.

FFmpeg gets the open file, never a path: many formats (concat, HLS, SDP, ...) refer to other
files, which it would read. Tracks that are not the decoded one (video, subtitles, cover art,
attachments) are neither probed by their decoders nor passed on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, NoReturn

import av
from av.container import InputContainer
from av.stream import Discard

from auricle.errors import TooCostly, UndecodableAudio

FORMATS = "WAV, FLAC, MP3, Ogg, MP4/M4A, WebM/MKV, AAC, AIFF, AMR, WMA, AVI, MPEG, AU or CAF"
# Demuxers of formats that contain their audio, rather than refer to other files.
_CONTAINERS = "aac,aiff,amr,asf,au,avi,caf,flac,matroska,mov,mp3,mpeg,mpegts,ogg,w64,wav"
# Decoders of speech and music as they are recorded and sold, by FFmpeg's names.
CODECS = frozenset(
    (
        *("aac", "aac_latm", "ac3", "eac3", "alac", "amrnb", "amrwb", "flac", "gsm", "gsm_ms"),
        *("mp1", "mp1float", "mp2", "mp2float", "mp3", "mp3float", "opus", "libopus", "speex"),
        *("vorbis", "wmav1", "wmav2", "wmalossless", "wmapro", "wmavoice"),
        *("adpcm_ima_qt", "adpcm_ima_wav", "adpcm_ms", "pcm_alaw", "pcm_mulaw", "pcm_f32be"),
        *("pcm_f32le", "pcm_f64be", "pcm_f64le", "pcm_s8", "pcm_s16be", "pcm_s16le", "pcm_s24be"),
        *("pcm_s24le", "pcm_s32be", "pcm_s32le", "pcm_u8"),
    )
)
# Samples per channel in one frame: more than any encoder writes, and few enough to allocate.
_MAX_FRAME_SAMPLES = 1 << 20
# Formats whose length FFmpeg estimates from the bit rate of their beginning.
_ESTIMATED = frozenset({"aac", "mp3", "mpeg", "mpegts"})


@dataclass(frozen=True)
class AudioTrack:
    """The first audio track of an open container.

    `stated_seconds` is the length that the header states; None if it states none.
    """

    container: InputContainer
    stream: av.AudioStream
    stated_seconds: float | None


@contextmanager
def open_track(file: BinaryIO, name: str, max_streams: int) -> Iterator[AudioTrack]:
    """Open a recording; `file` must stay open while the block runs.

    `name` is the client's file name, for error messages. Raises UndecodableAudio if the
    container or the codec is not one of ours or there is no audio, and TooCostly if there are
    more than `max_streams` tracks. MemoryError is passed on.
    """
    try:
        container = av.open(
            file,
            container_options={
                "format_whitelist": _CONTAINERS,
                "codec_whitelist": ",".join(sorted(CODECS)),
                "protocol_whitelist": "",
            },
            io_open=_refuse_other_file,
            metadata_errors="replace",
        )
    except MemoryError:
        raise
    except (av.error.FFmpegError, OSError):  # the latter of another file, or of a seek before 0
        raise UndecodableAudio(f"{name} is not readable as {FORMATS}") from None
    with container:
        if len(container.streams) > max_streams:
            raise TooCostly(
                f"{name} has {len(container.streams)} tracks; "
                f"a recording may have {max_streams} (max_recording_tracks)"
            )
        yield _track(container, name)


def _track(container: InputContainer, name: str) -> AudioTrack:
    if not container.streams.audio:
        raise UndecodableAudio(f"{name} has no audio track")
    stream = container.streams.audio[0]
    context = stream.codec_context
    if context is None or context.codec.name not in CODECS:
        raise UndecodableAudio(f"{name} has audio of a codec that is not decoded here")
    context.options = {
        "codec_whitelist": context.codec.name,
        "max_samples": str(_MAX_FRAME_SAMPLES),
    }
    context.thread_count = 1
    for other in container.streams:
        if other is not stream:
            other.discard = Discard.all
    stated = None
    if container.duration and container.format.name not in _ESTIMATED:
        stated = container.duration / av.time_base
    return AudioTrack(container, stream, stated)


def _refuse_other_file(_url: str, _flags: int, _options: dict[str, str]) -> NoReturn:
    """Refuse, as FFmpeg's `io_open` callback, to open a file that the recording refers to."""
    raise PermissionError("a recording must be one file")
