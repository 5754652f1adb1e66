"""Gemma 4 with audio (E2B, E4B), with a causal encoder over positions of 40 ms.

A position is final as soon as it is computed; only the growing block of 0.32 s is computed twice.
The vision modules are not read.
"""

from __future__ import annotations

from auricle.checkpoints.architectures.base import Architecture, Layout, PromptTemplate
from auricle.checkpoints.causal import read_causal
from auricle.checkpoints.languages import FAMILY

_LAYOUT = Layout(
    name="original",
    section="",
    encoder={"model.audio_tower.": ""},
    projector={"model.embed_audio.": ""},
    text="model.language_model.",
    heads=("lm_head.",),
    witness="model.audio_tower.layers.0.norm_out.weight",
    out="model.embed_audio.embedding_projection.weight",
    unused=("model.vision_tower.", "model.embed_vision."),
)
# The prompt of the instruction models; the wording of the task is ours.
_USER = "<|turn>user\n<|audio>"
_TASK = "Transcribe the speech in its original language. Only output the transcription."
_ANSWER = "<turn|>\n<|turn>model\n"

GEMMA4 = Architecture(
    name="Gemma 4",
    classes=frozenset({"Gemma4ForConditionalGeneration"}),
    model_types=frozenset({"gemma4"}),
    layouts=(_LAYOUT,),
    geometry=read_causal,
    encoder="causal",
    decoder="Gemma4ForCausalLM",
    prompt=PromptTemplate(
        before=("<bos>" + _USER,),
        before_with_context=("<bos><|turn>system\n", "{context}", "<turn|>\n" + _USER),
        after=("<audio|>" + _TASK + _ANSWER,),
        after_forced=(
            "<audio|>",
            "Transcribe the {language} speech. Only output the transcription.",
            _ANSWER,
        ),
        audio_token="<|audio|>",
        stops=("<turn|>", "<eos>"),
    ),
    vocabulary="sentence_pieces",
    languages=FAMILY,
    audio_defaults={
        "hidden_size": 1024,
        "num_hidden_layers": 12,
        "num_attention_heads": 8,
        "subsampling_conv_channels": [128, 32],
        "conv_kernel_size": 5,
        "attention_chunk_size": 12,
        "attention_context_left": 13,
        "attention_context_right": 0,
        "output_proj_dims": 1536,
    },
    text_defaults={"global_head_dim": 512, "num_kv_shared_layers": 0},
)
