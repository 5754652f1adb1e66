"""The thinker of Qwen3-Omni: the audio encoder of Qwen3-ASR before a mixture of experts.

Its answers are plain text. Nothing of what sees or speaks is read. Positions of audio and text are
consecutive in all three parts of its rotary embedding, which is then the plain one.
"""

from __future__ import annotations

from dataclasses import replace

from auricle.checkpoint.architectures.base import Architecture, PromptTemplate
from auricle.checkpoint.architectures.qwen3_asr import ORIGINAL
from auricle.checkpoint.geometry import read_geometry

# Of speech that it understands, by its model card.
_LANGUAGES = (
    *("English", "Chinese", "Korean", "Japanese", "German", "Russian", "Italian", "French"),
    *("Spanish", "Portuguese", "Malay", "Dutch", "Indonesian", "Turkish", "Vietnamese"),
    *("Cantonese", "Arabic"),
)
_USER = "<|im_start|>user\n<|audio_start|>"
_ANSWER = "<|im_end|>\n<|im_start|>assistant\n"

QWEN3_OMNI = Architecture(
    name="Qwen3-Omni",
    classes=frozenset({"Qwen3OmniMoeForConditionalGeneration"}),
    model_types=frozenset({"qwen3_omni_moe"}),
    layouts=(replace(ORIGINAL, unused=("thinker.visual.", "talker.", "code2wav.")),),
    geometry=read_geometry,
    encoder="windowed",
    decoder="Qwen3MoeForCausalLM",
    prompt=PromptTemplate(
        before=(_USER,),
        before_with_context=("<|im_start|>system\n", "{context}", "<|im_end|>\n" + _USER),
        after=("<|audio_end|>Transcribe the audio into text." + _ANSWER,),
        after_forced=("<|audio_end|>", "Transcribe the {language} audio into text.", _ANSWER),
        audio_token="<|audio_pad|>",
        stops=("<|im_end|>", "<|endoftext|>"),
    ),
    languages=_LANGUAGES,
)
