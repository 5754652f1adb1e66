"""Whisper's decoder in CTranslate2, from a checkpoint in transformers' format.

CTranslate2's model of Whisper includes the encoder, which the encode worker runs. Encoder output is
given instead, so the model has an encoder of one layer that is never run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ctranslate2
import numpy as np
from ctranslate2.specs.whisper_spec import WhisperSpec
from numpy.typing import NDArray

from auricle.checkpoints.files import ModelCheckpoint
from auricle.checkpoints.prompt import suppressed_tokens
from auricle.checkpoints.text_model import text_weights
from auricle.checkpoints.tokenizer import load_tokenizer
from auricle.config.devices import ComputeType
from auricle.core.errors import CheckpointError, SettingsError

Floats = NDArray[np.float32]
_QKV = ("q_proj", "k_proj", "v_proj")


@dataclass(frozen=True)
class ControlTokens:
    """Token ids of Whisper: the `start` of a prompt, the last one before its `text`, the `end`."""

    start: int
    text: int
    end: int

    def begin(self, prompt: Sequence[int]) -> tuple[int, int]:
        """Return the index of the start token, and of the text that follows the control tokens.

        Both are -1 without a start token.
        """
        if self.start not in prompt:
            return -1, -1
        start = list(prompt).index(self.start)
        after = start
        while after < len(prompt) and self.start <= prompt[after] <= self.text:
            after += 1
        return start, after


@dataclass(frozen=True)
class Continued:
    """The `tokens` that continue a prompt; `logits` of each if requested, (tokens, vocabulary).

    If the last token is an end, it is among the tokens.
    """

    tokens: list[int]
    logits: Floats | None


class WhisperDecoderModel:
    """The loaded model. For one thread."""

    def __init__(
        self, checkpoint: ModelCheckpoint, compute_type: ComputeType, threads: int
    ) -> None:
        """Blocks for seconds.

        Raises CheckpointError if the weights do not fit the config, and SettingsError if the
        temporary files do not fit.
        """
        self.vocab_size = checkpoint.geometry.vocab_size
        self.control = _control_tokens(checkpoint)
        self.suppressed = suppressed_tokens(
            checkpoint.path, checkpoint.architecture, self.vocab_size
        )
        spec = _spec(checkpoint)
        spec.register_vocabulary(_vocabulary(self.control, self.vocab_size))
        spec.config.lang_ids = list(range(self.control.start + 1, self.control.text))
        # An output cannot begin with one, which would be taken for a part of the prompt.
        spec.config.suppress_ids_begin = [*spec.config.lang_ids, self.control.text]
        try:
            spec.validate()
            spec.optimize(compute_type)  # less to write, and to load
            with tempfile.TemporaryDirectory(prefix="auricle-ctranslate2-") as folder:
                spec.save(folder)
                self._model = ctranslate2.models.Whisper(
                    folder, device="cpu", compute_type=compute_type, intra_threads=threads
                )
        except ValueError as error:
            raise CheckpointError(
                f"the weights of the text decoder do not fit its config: {error}"
            ) from None
        except OSError as error:
            raise SettingsError(
                f"cannot write the text decoder to {tempfile.gettempdir()}: {error.strerror}; "
                "free space there, or set TMPDIR"
            ) from None

    def continued(
        self,
        audio: Floats,
        prompts: Sequence[Sequence[int]],
        most: int,
        *,
        suppressed: Sequence[int],
        scored: bool,
    ) -> list[Continued]:
        """Decode greedily, `most` tokens or less after the longest of the prompts.

        `audio` is the encoder's output, (prompts, positions, width). All prompts have the start
        and text tokens at the same places (`ControlTokens.begin`). Tokens outside the vocabulary
        end the process.
        """
        _, text = self.control.begin(prompts[0])
        forced = [len(prompt) - text for prompt in prompts]
        length = max(forced) + most
        found = self._model.generate(
            ctranslate2.StorageView.from_array(audio),
            [list(prompt) for prompt in prompts],
            beam_size=1,
            # It takes the lower one of half of this, and of this less the prompt it begins with.
            max_length=max(2 * length, length + text - 1),
            return_logits_vocab=scored,
            suppress_blank=True,
            suppress_tokens=list(suppressed),
        )
        # Forced tokens are part of its output, and the end is not.
        return [
            self._after(one, skipped, length) for one, skipped in zip(found, forced, strict=True)
        ]

    def _after(self, found: Any, forced: int, length: int) -> Continued:
        tokens = found.sequences_ids[0]
        if len(tokens) < length:
            tokens = [*tokens, self.control.end]
        logits = None
        if found.logits:
            logits = np.stack([np.asarray(one) for one in found.logits[0][forced:]])
        return Continued(tokens[forced:], logits)

    def after_start(self, audio: Floats) -> list[dict[int, float]]:
        """Return the probabilities of control tokens directly after the start token, by token.

        `audio` is as for `continued`.
        """
        found = self._model.detect_language(ctranslate2.StorageView.from_array(audio))
        return [{_number(name): float(share) for name, share in one} for one in found]


def _control_tokens(checkpoint: ModelCheckpoint) -> ControlTokens:
    tokenizer = load_tokenizer(checkpoint.path)
    names = ("<|startoftranscript|>", "<|notimestamps|>", "<|endoftext|>")
    start, text, end = (tokenizer.token_to_id(name) for name in names)
    if start is None or text is None or end is None:
        raise CheckpointError(f"the tokenizer in {checkpoint.path} lacks one of {', '.join(names)}")
    return ControlTokens(start, text, end)


def _vocabulary(control: ControlTokens, size: int) -> list[str]:
    """Return names of all tokens; only the names of control tokens have a meaning."""
    names = [f"{number}" for number in range(size)]
    names[control.start] = "<|startoftranscript|>"
    names[control.text] = "<|notimestamps|>"
    names[control.end] = "<|endoftext|>"
    return [*names[:-1], ""]


def _number(name: str) -> int:
    return int(name)


def _spec(checkpoint: ModelCheckpoint) -> Any:
    """Return CTranslate2's description of the model, with its weights."""
    weights = {name: tensor.float().numpy() for name, tensor in text_weights(checkpoint)[0].items()}
    text = checkpoint.text_config
    layers, heads = int(text["num_hidden_layers"]), int(text["num_attention_heads"])
    spec = WhisperSpec(1, heads, layers, heads)
    fill = _Weights(checkpoint, weights)
    fill.decoder(spec.decoder, layers)
    fill.unused_encoder(spec.encoder)
    return spec


class _Weights:
    """A decoder's weights by transformers' names, for CTranslate2's layers."""

    def __init__(self, checkpoint: ModelCheckpoint, weights: dict[str, Floats]) -> None:
        self._weights = weights
        self._width = checkpoint.geometry.hidden_size
        self._path = checkpoint.path

    def __getitem__(self, name: str) -> Floats:
        if name not in self._weights:
            raise CheckpointError(f"weights in {self._path} lack `{name}` of the text decoder")
        return self._weights[name]

    def decoder(self, to: Any, layers: int) -> None:
        to.embeddings.weight = self["embed_tokens.weight"]
        to.projection.weight = self["embed_tokens.weight"]
        to.position_encodings.encodings = self["embed_positions.weight"]
        self._norm(to.layer_norm, "layer_norm")
        for number in range(layers):
            layer, name = to.layer[number], f"layers.{number}"
            self._shared(layer, name)
            attention = f"{name}.encoder_attn"
            self._linear(layer.attention.linear[0], f"{attention}.q_proj")
            self._linear(layer.attention.linear[1], *(f"{attention}.{one}" for one in _QKV[1:]))
            self._linear(layer.attention.linear[2], f"{attention}.out_proj")
            self._norm(layer.attention.layer_norm, f"{name}.encoder_attn_layer_norm")

    def unused_encoder(self, to: Any) -> None:
        """Fill in shapes; the layer is one of the decoder's, which takes no memory again."""
        for conv, inputs in ((to.conv1, 1), (to.conv2, self._width)):
            conv.weight = np.zeros((self._width, inputs, 3), np.float32)
            conv.bias = np.zeros(self._width, np.float32)
        to.position_encodings.encodings = np.zeros((1, self._width), np.float32)
        self._norm(to.layer_norm, "layer_norm")
        self._shared(to.layer[0], "layers.0")

    def _shared(self, layer: Any, name: str) -> None:
        """Fill what layers of encoder and decoder have."""
        own = layer.self_attention
        self._linear(own.linear[0], *(f"{name}.self_attn.{one}" for one in _QKV))
        self._linear(own.linear[1], f"{name}.self_attn.out_proj")
        self._norm(own.layer_norm, f"{name}.self_attn_layer_norm")
        self._linear(layer.ffn.linear_0, f"{name}.fc1")
        self._linear(layer.ffn.linear_1, f"{name}.fc2")
        self._norm(layer.ffn.layer_norm, f"{name}.final_layer_norm")

    def _linear(self, to: Any, *names: str) -> None:
        """Fill a layer with the weights of `names` side by side; keys have no bias."""
        to.weight = np.concatenate([self[f"{name}.weight"] for name in names])
        none = np.zeros(self._width, np.float32)
        to.bias = np.concatenate([self._weights.get(f"{name}.bias", none) for name in names])

    def _norm(self, to: Any, name: str) -> None:
        to.gamma, to.beta = self[f"{name}.weight"], self[f"{name}.bias"]
