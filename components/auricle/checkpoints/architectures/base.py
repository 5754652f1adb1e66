"""The parts of an `Architecture`. Values only: no files are read, and torch is not imported."""

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
# How the decoder takes embeddings: in place of prompt tokens, or by cross-attention.
Audio = Literal["prompt", "cross_attention"]
Task = Literal["transcribe", "translate"]

# How tokens are named: bytes as characters, as in GPT-2, or text with `▁` for a space and `<0x0A>`
# for single bytes.
Vocabulary = Literal["byte_level", "sentence_pieces"]


@dataclass(frozen=True)
class Layout:
    """A published format of an architecture's checkpoints.

    `section` is the part of config.json with `audio_config` and `text_config`; empty if they are
    at the top. A `flat` config.json has neither: it describes encoder and decoder together.
    `encoder` and `projector` map prefixes of tensor names to prefixes in the modules; the first
    match counts, the projector's before the encoder's. `text` and `heads` are prefixes of the text
    model and the output layer, `unused` of modules that recognition does not need. The shapes of
    `witness`, as wide as the encoder, and `out`, as high as an embedding is wide, are compared with
    the config. `first_norm` is a tensor of each layer of the text model.
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
        """Return a tensor's name in the projector; None if it is elsewhere."""
        return _renamed(name, self.projector)

    def in_encoder(self, name: str) -> str | None:
        """Return a tensor's name in the encoder; None if it is elsewhere."""
        return None if self.in_projector(name) is not None else _renamed(name, self.encoder)

    def of_encoder(self, name: str) -> bool:
        return name.startswith((*self.encoder, *self.projector))

    def of_decoder(self, name: str) -> bool:
        return name.startswith((self.text, *self.heads)) and not self.of_encoder(name)


# Parts of a prompt, with control tokens. A part with `{context}` or `{language}`, which clients
# fill, is tokenized as plain text. `{code}` is a language code of the checkpoint, `{task}` a
# `Task`.
Pieces = tuple[str, ...]


@dataclass(frozen=True)
class PromptTemplate:
    """The published prompt, and the form of the answer.

    `before` precedes the audio (`before_with_context` with a `{context}`), `after` follows it
    (`after_forced` with the client's `{language}`).

    With a `mark`, an answer is `language X`, the mark, and the text, and `after_forced` ends with
    the same. Without it, an answer is text only. With `detects`, a separate request detects the
    language: the token after `after`, which is the `{code}` of `after_forced`.
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
        return any("{task}" in piece for piece in self.after_forced)


def any_config(_config: Mapping[str, Any]) -> bool:
    return True


@dataclass(frozen=True)
class Architecture:
    """A supported kind of model.

    config.json names it by one of `classes` or `model_types`; if architectures share a class,
    `fits` distinguishes them. `geometry(audio, text, token)` reads the sizes from `audio_config`
    and `text_config`, after adding the defaults, and from the id of the audio placeholder, which
    config.json has under `audio_token_key`; it raises CheckpointError with all errors. `languages`
    apply to checkpoints without their own list, in the model's spelling. `text_names` maps names of
    sizes to the names in config.json.
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
        """Return the layout that matches the sections of a config.json; None without a match."""
        for one in self.layouts:
            sections = (one.section,) if one.section else ("audio_config", "text_config")
            if one.flat or all(section in config for section in sections):
                return one
        return None


def _renamed(name: str, beginnings: Mapping[str, str]) -> str | None:
    for old, new in beginnings.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return None
