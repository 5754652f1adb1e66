"""Whisper, whose decoder attends to 30 s of encoded audio and silence.

Its prompt contains no audio. `WHISPER_ENGLISH` is for English-only checkpoints, with a smaller
vocabulary and prompts without a language.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from auricle.checkpoints.architectures.base import Architecture, Layout, PromptTemplate
from auricle.checkpoints.languages import WHISPER_NAMES
from auricle.checkpoints.whole_chunks import read_whisper

# As in openai/whisper (`is_multilingual` of model.py).
_MULTILINGUAL_VOCABULARY = 51865

_LAYOUT = Layout(
    name="transformers",
    section="",
    flat=True,
    encoder={"model.encoder.": ""},
    projector={},
    text="model.decoder.",
    heads=("proj_out.",),
    witness="model.encoder.layer_norm.weight",
    out="model.decoder.layers.0.encoder_attn.k_proj.weight",
    first_norm="self_attn_layer_norm.weight",
)
_START, _TEXT = "<|startoftranscript|>", "<|notimestamps|>"


def _multilingual(config: Mapping[str, Any]) -> bool:
    vocabulary = config.get("vocab_size")
    return isinstance(vocabulary, int) and vocabulary >= _MULTILINGUAL_VOCABULARY


def _english(config: Mapping[str, Any]) -> bool:
    return not _multilingual(config)


WHISPER = Architecture(
    name="Whisper",
    classes=frozenset({"WhisperForConditionalGeneration"}),
    model_types=frozenset({"whisper"}),
    layouts=(_LAYOUT,),
    geometry=read_whisper,
    encoder="whisper",
    decoder="WhisperForConditionalGeneration",
    audio="cross_attention",
    prompt=PromptTemplate(
        before=(),
        before_with_context=("<|startofprev|>", " {context}"),
        after=(_START,),
        after_forced=(_START, "<|{code}|>", "<|{task}|>" + _TEXT),
        audio_token=None,
        stops=("<|endoftext|>",),
        mark=_TEXT,
        detects=True,
    ),
    languages=tuple(WHISPER_NAMES.values()),
    fits=_multilingual,
    text_names={
        "hidden_size": "d_model",
        "num_hidden_layers": "decoder_layers",
        "num_attention_heads": "decoder_attention_heads",
        "max_position_embeddings": "max_target_positions",
    },
)
WHISPER_ENGLISH = replace(
    WHISPER,
    name="Whisper (English)",
    prompt=replace(
        WHISPER.prompt,
        after=(_START + _TEXT,),
        after_forced=(_START + _TEXT,),
        mark=None,
        detects=False,
    ),
    languages=("English",),
    fits=_english,
)
