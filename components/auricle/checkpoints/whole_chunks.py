"""The sizes of a checkpoint whose encoder attends to all of a chunk: Qwen2-Audio, Whisper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from auricle.audio.constants import HOP, SAMPLE_RATE, Frames
from auricle.checkpoints.geometry import FrontEnd, Geometry, SizeCheck

# Frames behind the last of a chunk that its last embedding depends on: of silence, if the chunk is
# not full, and of the samples that reach into them.
LOOKAHEAD = 2
_BLOCK_FRAMES = 100
_FRAMES_PER_POSITION = 2  # the second convolution's stride
POSITION_MS = 1000 * _FRAMES_PER_POSITION * HOP // SAMPLE_RATE
# Whisper was trained on 30 s of which the end is silence: without any, it repeats itself.
_WHISPER_SILENCE_SECONDS = 2
# Frames of silence that Whisper's encoder computes after the audio, before silence that it has
# cached. With less than 1 s it repeats itself on short segments.
CACHED_SILENCE_FRAMES = 100
_LEVELS = 8  # of cached silence, in one unit of what the encoder takes
SILENT = -10.0  # the log-mel of digital silence


class _Sliced(Protocol):
    def __len__(self) -> int: ...
    def __getitem__(self, rows: slice, /) -> Any: ...


Rows = TypeVar("Rows", bound=_Sliced)


@dataclass(frozen=True)
class WholeChunks(Geometry):
    """A window is a chunk of at most 30 s. Its frames, as sent, are `LOOKAHEAD` more than it has.

    A block is a second, of which nothing but the features is kept.
    """

    @property
    def window_samples(self) -> int:
        """Number of 16 kHz samples of a whole chunk."""
        return (self.window_frames - LOOKAHEAD) * HOP

    @property
    def lookahead(self) -> int:
        """Frames that a chunk's features have beyond those that it is of."""
        return LOOKAHEAD

    @property
    def front_end(self) -> FrontEnd:
        """Features of each chunk by itself."""
        return "whisper_by_window"

    def embeddings(self, frames: int) -> int:
        """Return the number of embeddings of a chunk, of whose frames the last are lookahead."""
        return self.positions(frames) // 2  # they are averaged in pairs

    def positions(self, frames: int) -> int:
        """Return the number of positions that the encoder's layers have for it."""
        own = max(0, frames - LOOKAHEAD)
        return -(-own // _FRAMES_PER_POSITION)

    @property
    def encodes_blocks(self) -> bool:
        """False: nothing but the features of a block is kept."""
        return False

    @property
    def max_segment_samples(self) -> int | None:
        """A chunk: one that is cut would be encoded without what precedes it."""
        return self.window_samples

    def segment_embeddings(self, frames: int) -> int:
        """Return the number of embeddings of a segment of `frames` times 10 ms."""
        whole, rest = divmod(frames, self.window_frames - LOOKAHEAD)
        return whole * self.window_embeddings + self.embeddings(rest + LOOKAHEAD)


@dataclass(frozen=True)
class WhisperChunks(WholeChunks):
    """The sizes of Whisper: one chunk of 30 s, audio and then silence, which is encoded as well.

    `silence_frames` of silence follow the audio, at most up to the end of the chunk. With fewer,
    what lies behind is a window of its own: 30 s of silence, of which only the positions behind
    those of the audio count.
    """

    silence_frames: int = 0

    def embeddings(self, frames: int) -> int:
        """Return the number of positions of a chunk, of whose frames the last are lookahead."""
        return self.positions(frames)

    @property
    def max_segment_samples(self) -> int | None:
        """A chunk, of which the end is silence."""
        return self.window_samples - _WHISPER_SILENCE_SECONDS * SAMPLE_RATE

    @property
    def attends_to_silence(self) -> bool:
        """True: the decoder always attends to 30 s."""
        return True

    def with_silence(self, frames: Frames) -> Frames:
        """Return a chunk's frames (its own, and lookahead) with those of `silence_frames`."""
        length = min(len(frames) + self.silence_frames, self.window_frames)
        silence = np.full((length - len(frames), self.mel_bins), SILENT, np.float32)
        return np.concatenate([frames, silence])

    def before_cached_silence(self) -> Self:
        """Return the same sizes, with little silence after the audio."""
        return replace(self, silence_frames=CACHED_SILENCE_FRAMES)

    def prompt_tokens(self, embeddings: int) -> int:
        """Return 0: the decoder attends to embeddings, which are not in its prompt."""
        return 0


def silence_floor(floor: float) -> float:
    """Return the clamp floor of cached silence for audio with the clamp floor `floor`.

    Both are of log-mel. Silence is cached at few levels, or hardly any of it would be used twice.
    """
    level = (max(floor, SILENT) + 4.0) / 4.0
    return round(level * _LEVELS) / _LEVELS * 4.0 - 4.0


def positions_attended(windows: Iterable[Rows]) -> list[Rows]:
    """Return which positions of each window a decoder attends to: those behind the windows before
    it, as silence has those behind the audio.
    """
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
    hidden = check.number(text, "text_config", "hidden_size")
    layers = check.number(text, "text_config", "num_hidden_layers")
    vocab = check.number(text, "text_config", "vocab_size")
    longest = check.number(text, "text_config", "max_position_embeddings")
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
