"""The parts of an `Architecture`: all that the rest of auricle asks about a kind of model.

Values only: nothing here reads a file, and torch is not imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from auricle.checkpoints.geometry import Geometry

# How audio becomes embeddings; `workers/encode/main.py` has a module for each.
EncoderKind = Literal["windowed", "whole_chunks", "causal", "whisper"]
# The text decoder, by the name of its class in vLLM and transformers.
DecoderKind = Literal[
    "Qwen3ForCausalLM",
    "Qwen3MoeForCausalLM",
    "Qwen2ForCausalLM",
    "Gemma4ForCausalLM",
    "WhisperForConditionalGeneration",
]
# How the decoder takes embeddings: in its prompt, in the place of tokens, or by cross-attention.
Audio = Literal["prompt", "cross_attention"]
Task = Literal["transcribe", "translate"]

# How tokens are named: bytes as characters, as since GPT-2, or text with `▁` for a space, and bytes
# as `<0x0A>` where a character has no token of its own.
Vocabulary = Literal["byte_level", "sentence_pieces"]


@dataclass(frozen=True)
class Layout:
    """One of the formats in which checkpoints of an architecture are published.

    `section` is the part of config.json with `audio_config` and `text_config`; empty if they are
    at the top. A `flat` config.json has neither: it describes encoder and decoder together.
    `encoder` and `projector` map beginnings of the weights' names to those in the
    modules; the first that fits counts, the projector's before the encoder's. `text` and `heads`
    begin the names of the text model's and of the output layer's, `unused` those of what has no
    part in recognition. `witness` is a tensor as wide as the encoder, `out` one that is as high as
    an embedding is wide: their shapes tell whether config and weights belong together.
    `first_norm` is a tensor that each layer of the text model has.
    """

    name: str
    section: str
    encoder: Mapping[str, str]
    projector: Mapping[str, str]
    text: str
    heads: tuple[str, ...]
    witness: str
    out: str
    unused: tuple[str, ...] = ()
    flat: bool = False
    first_norm: str = "input_layernorm.weight"

    def in_projector(self, name: str) -> str | None:
        """Return a tensor's name in the projector; None if it is not of it."""
        return _renamed(name, self.projector)

    def in_encoder(self, name: str) -> str | None:
        """Return a tensor's name in the encoder; None if it is not of it."""
        return None if self.in_projector(name) is not None else _renamed(name, self.encoder)

    def of_encoder(self, name: str) -> bool:
        """Whether a tensor is of the encoder or its projector."""
        return name.startswith((*self.encoder, *self.projector))

    def of_decoder(self, name: str) -> bool:
        """Whether a tensor is of the text model or its output layer."""
        return name.startswith((self.text, *self.heads)) and not self.of_encoder(name)


# Parts of a prompt. Control tokens are written out, except in a part with `{context}` or
# `{language}`: what is put there may be a client's, so all of that part is tokenized as plain text.
# `{code}` is the code of a language that the checkpoint has, `{task}` a `Task`.
Pieces = tuple[str, ...]


@dataclass(frozen=True)
class PromptTemplate:
    """The published prompt, and the form of the answer.

    `before` is what precedes the audio, in `before_with_context` with a `{context}`; `after`
    follows it, in `after_forced` with a `{language}` that the client has named.

    With a `mark`, an answer is `language X`, the mark, and the text; `after_forced` ends with the
    same for a language that is known. Without one, an answer is text from its first token on and
    says of what language only where that was forced. With `detects`, the first token after `after`
    is that of a language (the part of `after_forced` with a `{code}`), which a request of its own
    detects, and `after_forced` says how the prompt goes on.
    """

    before: Pieces
    before_with_context: Pieces
    after: Pieces
    after_forced: Pieces
    audio_token: str | None
    stops: tuple[str, ...]
    mark: str | None = None
    detects: bool = False

    @property
    def translates(self) -> bool:
        """Whether a prompt may ask for English, whatever language is spoken."""
        return any("{task}" in piece for piece in self.after_forced)


def any_config(_config: Mapping[str, Any]) -> bool:
    """Return True: an architecture that shares its classes with none."""
    return True


@dataclass(frozen=True)
class Architecture:
    """A kind of model.

    `classes` and `model_types` are what config.json calls it. `geometry(audio, text, token)` reads
    the sizes from `audio_config` and `text_config`, to which the defaults are added, and from the
    id of the audio's placeholder, which config.json has under `audio_token_key`; it raises
    CheckpointError naming all that does not fit. `languages` are those of a checkpoint that does
    not name its own, in the model's own spelling. Where architectures share a class, `fits` tells
    them apart by config.json. `text_names` maps names of sizes to those that this config.json has
    for them.
    """

    name: str
    classes: frozenset[str]
    model_types: frozenset[str]
    layouts: tuple[Layout, ...]
    geometry: Callable[[Mapping[str, Any], Mapping[str, Any], Any], Geometry]
    encoder: EncoderKind
    decoder: DecoderKind
    prompt: PromptTemplate
    languages: tuple[str, ...]
    audio_token_key: str = "audio_token_id"
    vocabulary: Vocabulary = "byte_level"
    audio_defaults: Mapping[str, Any] = field(default_factory=dict)
    text_defaults: Mapping[str, Any] = field(default_factory=dict)
    text_names: Mapping[str, str] = field(default_factory=dict)
    audio: Audio = "prompt"
    fits: Callable[[Mapping[str, Any]], bool] = any_config

    def layout_of(self, config: Mapping[str, Any]) -> Layout | None:
        """Return the layout whose sections a config.json has; None if it has those of none."""
        for one in self.layouts:
            if one.section and one.section in config:
                return one
            if one.flat:
                return one
            if not one.section and "audio_config" in config and "text_config" in config:
                return one
        return None


def _renamed(name: str, beginnings: Mapping[str, str]) -> str | None:
    for old, new in beginnings.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return None
