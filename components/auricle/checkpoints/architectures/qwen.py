"""Qwen3-ASR and Qwen3-ForcedAligner, which share a layout; Qwen3-Omni; Qwen2-Audio.

Qwen3-ASR's encoder attends within windows of 8 s, and convolves within blocks of 1 s: a finished
window is encoded once, a finished block convolved once.
"""

from __future__ import annotations

from dataclasses import replace

from auricle.checkpoints.architectures.base import Architecture, Layout, PromptTemplate
from auricle.checkpoints.geometry import read_geometry
from auricle.checkpoints.languages import FAMILY
from auricle.checkpoints.whole_chunks import read_whole_chunks

_HEADS = ("thinker.lm_head.", "lm_head.", "score.")  # `score` is a classifier

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


# The thinker of Qwen3-Omni: Qwen3-ASR's audio encoder and a mixture of experts. Answers are plain
# text. The vision and speech modules are not read. Audio and text positions are consecutive in all
# three parts of its rotary embedding, which equals plain RoPE.

# The spoken languages on its model card.
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


# Qwen2-Audio, with Whisper's encoder over 30 s. A window is a chunk of 30 s, which is encoded again
# at each decode until it is full. Its features are computed as if silence followed, with their own
# maximum.

_LAYOUT = Layout(
    name="original",
    section="",
    encoder={"audio_tower.": ""},
    projector={"multi_modal_projector.": ""},
    text="language_model.model.",
    heads=("language_model.lm_head.",),
    witness="audio_tower.layer_norm.weight",
    out="multi_modal_projector.linear.weight",
)
# The prompt of the instruction model; the wording of the task is ours, as none is published.
_SYSTEM = "You are a helpful assistant."
_QWEN2_AUDIO_USER = "<|im_end|>\n<|im_start|>user\nAudio 1: <|audio_bos|>"
_TASK = " ".join(("Write down what", "is", "said, word for word, and nothing else."))

QWEN2_AUDIO = Architecture(
    name="Qwen2-Audio",
    classes=frozenset({"Qwen2AudioForConditionalGeneration"}),
    model_types=frozenset({"qwen2_audio"}),
    layouts=(_LAYOUT,),
    geometry=read_whole_chunks,
    encoder="whole_chunks",
    decoder="Qwen2ForCausalLM",
    prompt=PromptTemplate(
        before=(f"<|im_start|>system\n{_SYSTEM}{_QWEN2_AUDIO_USER}",),
        before_with_context=(f"<|im_start|>system\n{_SYSTEM} ", "{context}", _QWEN2_AUDIO_USER),
        after=(f"<|audio_eos|>\n{_TASK}{_ANSWER}",),
        after_forced=("<|audio_eos|>\n", "The language is {language}. " + _TASK, _ANSWER),
        audio_token="<|AUDIO|>",
        stops=("<|im_end|>", "<|endoftext|>"),
    ),
    languages=("Chinese", "English", "Cantonese", "French", "Italian", "Spanish", "German"),
    audio_token_key="audio_token_index",
    # transformers' defaults, which its config leaves out.
    text_defaults={
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "intermediate_size": 22016,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": False,
    },
)
