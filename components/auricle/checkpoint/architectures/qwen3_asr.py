"""Qwen3-ASR, and Qwen3-ForcedAligner, whose encoder and text model are laid out alike.

The encoder attends within windows of 8 s, which are made of blocks of 1 s that its convolutions do
not see beyond: a finished window is encoded once, a finished block convolved once.
"""

from __future__ import annotations

from auricle.checkpoint.architectures.base import Architecture, Layout, PromptTemplate
from auricle.checkpoint.geometry import read_geometry
from auricle.checkpoint.languages import FAMILY

_HEADS = ("thinker.lm_head.", "lm_head.", "score.")  # `score` classifies

ORIGINAL = Layout(
    name="original",
    section="thinker_config",
    encoder={"thinker.audio_tower.": ""},
    projector={
        "thinker.audio_tower.proj1.": "linear_1.",
        "thinker.audio_tower.proj2.": "linear_2.",
    },
    text="thinker.model.",
    heads=_HEADS,
    witness="thinker.audio_tower.ln_post.weight",
    out="thinker.audio_tower.proj2.weight",
)
_TRANSFORMERS = Layout(
    name="transformers",
    section="",
    encoder={"model.audio_tower.": ""},
    projector={"model.multi_modal_projector.": ""},
    text="model.language_model.",
    heads=_HEADS,
    witness="model.audio_tower.ln_post.weight",
    out="model.multi_modal_projector.linear_2.weight",
)

_BEFORE = ("<|im_start|>system\n", "<|im_end|>\n<|im_start|>user\n<|audio_start|>")
_AFTER = "<|audio_end|><|im_end|>\n<|im_start|>assistant\n"

QWEN3_ASR = Architecture(
    name="Qwen3-ASR",
    classes=frozenset({"Qwen3ASRForConditionalGeneration", "Qwen3ASRForTokenClassification"}),
    model_types=frozenset({"qwen3_asr", "qwen3_forced_aligner"}),
    layouts=(ORIGINAL, _TRANSFORMERS),
    geometry=read_geometry,
    encoder="windowed",
    decoder="Qwen3ForCausalLM",
    prompt=PromptTemplate(
        before=_BEFORE,
        before_with_context=(_BEFORE[0], "{context}", _BEFORE[1]),
        after=(_AFTER,),
        after_forced=(_AFTER, "language {language}", "<asr_text>"),
        audio_token="<|audio_pad|>",
        stops=("<|im_end|>", "<|endoftext|>"),
        mark="<asr_text>",
    ),
    languages=FAMILY,
)
