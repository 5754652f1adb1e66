"""The sizes of a checkpoint whose encoder attends to all of a chunk: Qwen2-Audio, Whisper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from auricle.audio.constants import HOP, SAMPLE_RATE, Frames
from auricle.checkpoints.geometry import FrontEnd, Geometry, SizeCheck

# Frames after a chunk's last one that its last embedding depends on.
LOOKAHEAD = 2
_BLOCK_FRAMES = 100
_FRAMES_PER_POSITION = 2  # the second convolution's stride
POSITION_MS = 1000 * _FRAMES_PER_POSITION * HOP // SAMPLE_RATE
# Whisper was trained on 30 s that end with silence: without any, it repeats itself.
_WHISPER_SILENCE_SECONDS = 2
# Frames of silence that are computed between the audio and cached silence. With less than 1 s,
# Whisper repeats itself on short segments.
CACHED_SILENCE_FRAMES = 100
_LEVELS = 8  # of cached silence, per unit of the encoder's input
SILENT = -10.0  # the log-mel of digital silence


class _Sliced(Protocol):
    def __len__(self) -> int: ...
    def __getitem__(self, rows: slice, /) -> Any: ...


Rows = TypeVar("Rows", bound=_Sliced)


@dataclass(frozen=True)
class WholeChunks(Geometry):
    """A window is a chunk of at most 30 s; its frames include `LOOKAHEAD` more than its own.

    A block is a second; only its features are kept.
    """

    @property
    def window_samples(self) -> int:
        return (self.window_frames - LOOKAHEAD) * HOP

    @property
    def lookahead(self) -> int:
        return LOOKAHEAD

    @property
    def front_end(self) -> FrontEnd:
        return "whisper_by_window"

    def embeddings(self, frames: int) -> int:
        return self.positions(frames) // 2  # averaged in pairs

    def positions(self, frames: int) -> int:
        own = max(0, frames - LOOKAHEAD)
        return -(-own // _FRAMES_PER_POSITION)

    @property
    def encodes_blocks(self) -> bool:
        return False

    @property
    def max_segment_samples(self) -> int | None:
        return self.window_samples

    def segment_embeddings(self, frames: int) -> int:
        whole, rest = divmod(frames, self.window_frames - LOOKAHEAD)
        return whole * self.window_embeddings + self.embeddings(rest + LOOKAHEAD)


@dataclass(frozen=True)
class WhisperChunks(WholeChunks):
    """The sizes of Whisper: one chunk of 30 s, audio followed by silence, which is encoded too.

    `silence_frames` of silence follow the audio, at most up to the end of the chunk. If they end
    earlier, a second window of 30 s of silence gives the remaining positions.
    """

    silence_frames: int = 0

    def embeddings(self, frames: int) -> int:
        return self.positions(frames)

    @property
    def max_segment_samples(self) -> int | None:
        return self.window_samples - _WHISPER_SILENCE_SECONDS * SAMPLE_RATE

    @property
    def attends_to_silence(self) -> bool:
        return True  # the decoder always attends to 30 s

    def with_silence(self, frames: Frames) -> Frames:
        length = min(len(frames) + self.silence_frames, self.window_frames)
        silence = np.full((length - len(frames), self.mel_bins), SILENT, np.float32)
        return np.concatenate([frames, silence])

    def before_cached_silence(self) -> Self:
        return replace(self, silence_frames=CACHED_SILENCE_FRAMES)

    def prompt_tokens(self, embeddings: int) -> int:
        return 0  # the decoder attends to embeddings, which are not in its prompt


def silence_floor(floor: float) -> float:
    """Return the clamp floor of cached silence for audio with the clamp floor `floor`.

    Both are log-mel. Silence is cached at few levels, so that sessions share it.
    """
    level = (max(floor, SILENT) + 4.0) / 4.0
    return round(level * _LEVELS) / _LEVELS * 4.0 - 4.0


def positions_attended(windows: Iterable[Rows]) -> list[Rows]:
    """Return the positions of each window that follow the positions of the windows before it."""
    rows: list[Rows] = []
    count = 0
    for window in windows:
        rows.append(window[count:])
        count = max(count, len(window))
    return rows


def read_whisper(audio: Mapping[str, Any], text: Mapping[str, Any], _token: Any) -> WhisperChunks:
    """Check a config and extract the geometry.

    Raises CheckpointError, which names each wrong value and the expected one.
    """
    check = SizeCheck()
    bins = check.number(audio, "config", "num_mel_bins")
    positions = check.number(audio, "config", "max_source_positions")
    width = check.number(audio, "config", "d_model")
    check.number(audio, "config", "encoder_layers")
    check.number(audio, "config", "encoder_ffn_dim")
    layers = check.number(text, "config", "decoder_layers")
    vocab = check.number(text, "config", "vocab_size")
    longest = check.number(text, "config", "max_target_positions")
    check.heads(audio)
    check.done()
    chunk = positions * _FRAMES_PER_POSITION
    return WhisperChunks(
        block_frames=_BLOCK_FRAMES,
        window_frames=chunk + LOOKAHEAD,
        encoder_d_model=width,
        hidden_size=width,
        text_layers=layers,
        vocab_size=vocab,
        audio_token_id=None,
        max_positions=longest,
        mel_bins=bins,
        silence_frames=chunk,
    )


def read_whole_chunks(
    audio: Mapping[str, Any], text: Mapping[str, Any], audio_token_id: Any
) -> WholeChunks:
    """Check audio and text config and extract the geometry.

    Raises CheckpointError, which names each wrong value and the expected one.
    """
    check = SizeCheck()
    positions = check.number(audio, "audio_config", "max_source_positions")
    hidden, layers, vocab, longest = check.text_sizes(text)
    check.shared(audio, vocab, audio_token_id, "audio_token_index")
    check.done()
    return WholeChunks(
        block_frames=_BLOCK_FRAMES,
        window_frames=positions * _FRAMES_PER_POSITION + LOOKAHEAD,
        encoder_d_model=int(audio["d_model"]),
        hidden_size=hidden,
        text_layers=layers,
        vocab_size=vocab,
        audio_token_id=int(audio_token_id),
        max_positions=longest,
    )
