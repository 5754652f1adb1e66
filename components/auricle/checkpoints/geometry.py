"""The sizes of a checkpoint that other components depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from auricle.audio.constants import BINS, HOP, Frames
from auricle.core.errors import CheckpointError

# How samples become frames: Whisper's features of a whole segment (`audio/mel.py`), the same of
# each window as if silence followed it, or semicausal frames.
FrontEnd = Literal["whisper", "whisper_by_window", "semicausal"]


@dataclass(frozen=True)
class Geometry:
    """Sizes of encoder and decoder.

    `block_frames` is the conv stack's input (2·n_window mel frames, 1 s), `window_frames`
    the encoder's attention span (n_window_infer mel frames), `hidden_size` the width of an
    embedding (encoder output, decoder input), `max_positions` the decoder's context length.
    `audio_token_id` is None where audio has no place in the prompt. `mel_bins` is the width of a
    mel frame.
    """

    block_frames: int
    window_frames: int
    encoder_d_model: int
    hidden_size: int
    text_layers: int
    vocab_size: int
    audio_token_id: int | None
    max_positions: int
    mel_bins: int = field(default=BINS, kw_only=True)

    def embeddings(self, frames: int) -> int:
        """Return the number of embeddings of a window of `frames` mel frames, or of a segment."""
        full, rest = divmod(frames, self.block_frames)
        return full * _conv_length(self.block_frames) + _conv_length(rest)

    @property
    def window_embeddings(self) -> int:
        """Number of embeddings of a whole window (104 for the published checkpoints)."""
        return self.embeddings(self.window_frames)

    @property
    def window_samples(self) -> int:
        return self.window_frames * HOP

    @property
    def lookahead(self) -> int:
        """Frames of a window's features after its own."""
        return 0

    @property
    def front_end(self) -> FrontEnd:
        return "whisper"

    @property
    def context_blocks(self) -> int:
        """The number of earlier blocks that a window's embeddings depend on."""
        return 0

    @property
    def encodes_blocks(self) -> bool:
        """Whether the encoder computes block outputs that are reused in later windows."""
        return True

    @property
    def max_segment_samples(self) -> int | None:
        """The longest segment of the encoder in 16 kHz samples; None for no limit."""
        return None

    def before_cached_silence(self) -> Self:
        """Return the sizes for an encoder that caches the silence after a chunk."""
        return self

    def with_silence(self, frames: Frames) -> Frames:
        """Append the frames of the silence that is encoded after a chunk."""
        return frames

    @property
    def attends_to_silence(self) -> bool:
        """Whether the decoder attends to the silence after a short chunk."""
        return False

    @property
    def projector_width(self) -> int:
        return self.encoder_d_model

    def segment_embeddings(self, frames: int) -> int:
        return self.embeddings(frames)

    def prompt_tokens(self, embeddings: int) -> int:
        return embeddings


def kv_shapes(text: Mapping[str, Any]) -> tuple[tuple[int, int], ...]:
    """Return the number of KV heads and their width for each layer with its own keys.

    In Gemma's decoders, layers with full attention are wider than layers with a sliding window,
    and the last layers share the keys of earlier ones.
    """
    heads = int(text.get("num_key_value_heads") or text["num_attention_heads"])
    width = int(text.get("head_dim") or text["hidden_size"] // text["num_attention_heads"])
    layers = int(text["num_hidden_layers"]) - int(text.get("num_kv_shared_layers") or 0)
    wide = text.get("global_head_dim")
    if not wide:
        return ((heads, width),) * layers
    kinds = text["layer_types"][:layers]
    return tuple((heads, int(wide) if kind == "full_attention" else width) for kind in kinds)


def kv_values_per_token(text: Mapping[str, Any]) -> int:
    """Return the number of values per token in the KV cache: keys and values of all layers."""
    return 2 * sum(heads * width for heads, width in kv_shapes(text))


def _conv_length(frames: int) -> int:
    """Return the length after three convolutions of kernel 3, stride 2, padding 1."""
    for _ in range(3):
        frames = (frames + 1) // 2
    return frames


class SizeCheck:
    """Collects the errors of a config, to be raised together."""

    def __init__(self) -> None:
        self._wrong: list[str] = []

    def number(self, config: Mapping[str, Any], owner: str, key: str) -> int:
        """Return a size; records an error and returns 1 if it is not a positive integer."""
        value = config.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
            self._wrong.append(f"{owner}.{key} is {value!r}, expected a positive integer")
            return 1
        return value

    def text_sizes(self, text: Mapping[str, Any], owner: str = "text_config") -> list[int]:
        """Return hidden size, layers, vocabulary and context length of a text model."""
        keys = ("hidden_size", "num_hidden_layers", "vocab_size", "max_position_embeddings")
        return [self.number(text, owner, key) for key in keys]

    def require(self, right: bool, otherwise: str) -> None:
        """Record the error `otherwise` unless `right`."""
        if not right:
            self._wrong.append(otherwise)

    def shared(self, audio: Mapping[str, Any], vocab: int, token: Any, key: str) -> None:
        """Check the sizes of encoders like Whisper's; `key` names the audio token."""
        bins = self.number(audio, "audio_config", "num_mel_bins")
        self.token(token, vocab, key)
        self.require(bins == BINS, f"audio_config.num_mel_bins is {bins}, expected {BINS}")
        self.heads(audio)

    def heads(self, audio: Mapping[str, Any]) -> None:
        """Check that the heads of an encoder like Whisper's divide its width."""
        d_model = self.number(audio, "audio_config", "d_model")
        heads = self.number(audio, "audio_config", "encoder_attention_heads")
        self.divisible(d_model, "d_model", heads, "encoder_attention_heads")

    def token(self, token: Any, vocab: int, key: str) -> None:
        """Check the id of the audio placeholder, which config.json has under `key`."""
        self.require(
            isinstance(token, int) and 0 <= token < vocab,
            f"{key} is {token!r}, expected an id below vocab_size {vocab}",
        )

    def divisible(self, width: int, width_key: str, heads: int, heads_key: str) -> None:
        self.require(
            width % heads == 0,
            f"audio_config.{width_key} {width} is not divisible by {heads_key} {heads}",
        )

    def done(self) -> None:
        """Raise CheckpointError if an error was recorded."""
        if self._wrong:
            found = dict.fromkeys(self._wrong)  # once each
            raise CheckpointError("config.json does not fit: " + "; ".join(found))


def read_geometry(
    audio: Mapping[str, Any], text: Mapping[str, Any], audio_token_id: Any
) -> Geometry:
    """Check audio and text config and extract the geometry.

    Raises CheckpointError, which names each wrong value and the expected one.
    """
    check = SizeCheck()
    n_window = check.number(audio, "audio_config", "n_window")
    n_window_infer = check.number(audio, "audio_config", "n_window_infer")
    output_dim = check.number(audio, "audio_config", "output_dim")
    hidden, layers, vocab, positions = check.text_sizes(text)
    check.shared(audio, vocab, audio_token_id, "audio_token_id")
    check.require(
        n_window_infer % (2 * n_window) == 0,
        f"audio_config.n_window_infer is {n_window_infer}, expected a multiple of "
        f"2 x n_window = {2 * n_window} mel frames",
    )
    check.require(
        output_dim == hidden,
        f"audio_config.output_dim is {output_dim} but text_config.hidden_size is {hidden}; "
        "the encoder's embeddings must be as wide as the decoder's",
    )
    check.done()
    return Geometry(
        block_frames=2 * n_window,
        window_frames=n_window_infer,
        encoder_d_model=int(audio["d_model"]),
        hidden_size=hidden,
        text_layers=layers,
        vocab_size=vocab,
        audio_token_id=int(audio_token_id),
        max_positions=positions,
    )
