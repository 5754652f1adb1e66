"""The sizes of a checkpoint whose encoder attends to all of a chunk, as Whisper's does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from auricle.audio.constants import HOP
from auricle.checkpoint.geometry import FrontEnd, Geometry, SizeCheck

# Frames behind the last of a chunk that its last embedding depends on: of silence, if the chunk is
# not full, and of the samples that reach into them.
LOOKAHEAD = 2
_BLOCK_FRAMES = 100
_FRAMES_PER_POSITION = 2  # the second convolution's stride


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

    def segment_embeddings(self, frames: int) -> int:
        """Return the number of embeddings of a segment of `frames` times 10 ms."""
        whole, rest = divmod(frames, self.window_frames - LOOKAHEAD)
        return whole * self.window_embeddings + self.embeddings(rest + LOOKAHEAD)


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
