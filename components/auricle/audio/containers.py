"""Opens recordings with FFmpeg, and chooses the track to transcribe.

FFmpeg opens an untrusted recording, with these containers and codecs only. It gets the open file,
never a path: many formats (concat, HLS, SDP, ...) refer to other files, which it would read. Other
tracks (video, subtitles, cover art, attachments) are neither probed nor passed on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO, NoReturn

import av
from av.container import InputContainer
from av.stream import Discard, Disposition

from auricle.core.errors import TooCostly, UndecodableAudio

FORMATS = "WAV, FLAC, MP3, Ogg, MP4/M4A, WebM/MKV, AAC, AIFF, AMR, WMA, AVI, MPEG, AU or CAF"
# Demuxers of formats that contain their audio, rather than refer to other files.
_CONTAINERS = "aac,aiff,amr,asf,au,avi,caf,flac,matroska,mov,mp3,mpeg,mpegts,ogg,w64,wav"
# Decoders of common speech and music formats, by FFmpeg's names.
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
# Samples per channel in one frame: more than any encoder writes, and still allocatable.
_MAX_FRAME_SAMPLES = 1 << 20
# Formats whose length FFmpeg estimates from the bit rate of their beginning.
_ESTIMATED = frozenset({"aac", "mp3", "mpeg", "mpegts"})
_LONGEST = 1e7  # seconds that a tag may state
_MATROSKA, _MP4 = "matroska,webm", "mov,mp4,m4a,3gp,3g2,mj2"
# Formats whose times begin at 0 even if the audio begins later. In the others, captures begin at
# any time.
_FROM_ZERO = frozenset({_MATROSKA, _MP4, "flac", "avi", "asf"})
# Formats whose headers state the length of the audio track.
_STATED = frozenset({_MP4, "flac"})


@dataclass(frozen=True)
class AudioTrack:
    """The audio track of an open container that is transcribed.

    `announced_seconds` is the container's length before decoding, which FFmpeg may have estimated,
    or None. `stated_seconds` is the end of the track by the header. The recording begins at
    `origin`, in seconds of the container; None if that is its first frame. `has_pauses`: its format
    can tell that nothing was recorded for a time. `choice` is a warning: why it is this track;
    empty if it is the only one.
    """

    container: InputContainer
    stream: av.AudioStream
    announced_seconds: float | None
    stated_seconds: float | None
    origin: float | None
    has_pauses: bool
    choice: str


@contextmanager
def open_track(
    file: BinaryIO, name: str, max_streams: int, stated: float | None
) -> Iterator[AudioTrack]:
    """Open a recording; `file` must stay open while the block runs.

    `name` is the client's file name, for error messages, `stated` the file's length by `layout`.
    Raises UndecodableAudio for an unsupported container or codec or a file without audio, TooCostly
    above `max_streams` tracks, and MemoryError.
    """
    # Where FFmpeg mends damage, it only logs that: see `Demuxing`.
    av.logging.set_level(av.logging.ERROR)
    av.logging.set_skip_repeated(False)
    with av.logging.Capture():
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
        except (av.error.FFmpegError, OSError):  # OSError: another file, or a seek before 0
            raise UndecodableAudio(f"{name} is not readable as {FORMATS}") from None
    with container:
        if len(container.streams) > max_streams:
            raise TooCostly(
                f"{name} has {len(container.streams)} tracks; "
                f"a recording may have {max_streams} (max_recording_tracks)"
            )
        yield _track(container, name, stated)


def _track(container: InputContainer, name: str, by_layout: float | None) -> AudioTrack:
    tracks = container.streams.audio
    if not tracks:
        raise UndecodableAudio(f"{name} has no audio track")
    stream = next((one for one in tracks if one.disposition & Disposition.default), tracks[0])
    context = stream.codec_context
    if context is None or context.codec.name not in CODECS:
        raise UndecodableAudio(f"{name} has audio of an unsupported codec")
    context.options = {
        "codec_whitelist": context.codec.name,
        "max_samples": str(_MAX_FRAME_SAMPLES),
    }
    context.thread_count = 1
    for other in container.streams:
        if other is not stream:
            other.discard = Discard.all
    announced = None
    if container.duration and container.format.name not in _ESTIMATED:
        announced = container.duration / av.time_base
    stated = _stated(container, stream, by_layout)
    origin = _origin(container, stream, stated)
    has_pauses = container.format.name != "flac"
    choice = _choice(tracks, stream)
    return AudioTrack(container, stream, announced, stated, origin, has_pauses, choice)


def _stated(
    container: InputContainer, stream: av.AudioStream, by_layout: float | None
) -> float | None:
    """Return the end of the track by the header, as far as the format has it."""
    if container.format.name == _MATROSKA:
        # The header has the length of the longest track; most writers add a tag for each.
        return _tagged(stream) or (by_layout if len(container.streams) == 1 else None)
    if by_layout is not None:
        return by_layout
    if container.format.name not in _STATED or not stream.duration or stream.time_base is None:
        return None
    if container.format.name == _MP4 and not stream.frames:  # its fragments follow
        return None
    begin = max(stream.start_time or 0, 0) if container.format.name == _MP4 else 0
    return float((begin + stream.duration) * stream.time_base)


def _tagged(stream: av.AudioStream) -> float | None:
    with suppress(ValueError):
        tag = stream.metadata.get("DURATION", "").strip("\0 ")
        hours, minutes, seconds = (float(number) for number in tag.split(":"))
        if 0 < (length := hours * 3600 + minutes * 60 + seconds) < _LONGEST:
            return length
    return None


def _origin(
    container: InputContainer, stream: av.AudioStream, stated: float | None
) -> float | None:
    """Return the time at which the recording begins, None if that is the track's first frame.

    A header that states a length counts times from 0; a capture without one begins at any time.
    """
    known = stated if container.format.name != "asf" else container.duration
    if container.format.name in _FROM_ZERO and known:
        return 0.0
    if container.start_time is None or len(container.streams) == 1:
        return None
    return float(container.start_time / av.time_base)


def _choice(tracks: tuple[av.AudioStream, ...], stream: av.AudioStream) -> str:
    if len(tracks) == 1:
        return ""
    why = "the file's default" if stream.disposition & Disposition.default else "the first"
    number = tracks.index(stream) + 1
    return f"of {len(tracks)} audio tracks, number {number} is transcribed: it is {why}"


def _refuse_other_file(_url: str, _flags: int, _options: dict[str, str]) -> NoReturn:
    """FFmpeg's `io_open` callback: reject other files that a recording refers to."""
    raise PermissionError("a recording must be one file")
