"""Qwen2-Audio, of which Whisper's encoder attends to everything within 30 s.

So a chunk of 30 s is the window: it is encoded again at each decode until it is full, and then
never again. Its features are computed as if silence followed, with a maximum of their own.
"""

from __future__ import annotations

from auricle.checkpoint.architectures.base import Architecture, Layout, PromptTemplate
from auricle.checkpoint.whole_chunks import read_whole_chunks

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
# Of the instruction model. What it is asked to do is ours: nothing is published for this.
_SYSTEM = "You are a helpful assistant."
_USER = "<|im_end|>\n<|im_start|>user\nAudio 1: <|audio_bos|>"
_TASK = "Write down what is said, word for word, and nothing else."
_ANSWER = "<|im_end|>\n<|im_start|>assistant\n"

QWEN2_AUDIO = Architecture(
    name="Qwen2-Audio",
    classes=frozenset({"Qwen2AudioForConditionalGeneration"}),
    model_types=frozenset({"qwen2_audio"}),
    layouts=(_LAYOUT,),
    geometry=read_whole_chunks,
    encoder="whole_chunks",
    decoder="Qwen2ForCausalLM",
    prompt=PromptTemplate(
        before=(f"<|im_start|>system\n{_SYSTEM}{_USER}",),
        before_with_context=(f"<|im_start|>system\n{_SYSTEM} ", "{context}", _USER),
        after=(f"<|audio_eos|>\n{_TASK}{_ANSWER}",),
        after_forced=("<|audio_eos|>\n", "The language is {language}. " + _TASK, _ANSWER),
        audio_token="<|AUDIO|>",
        stops=("<|im_end|>", "<|endoftext|>"),
    ),
    languages=("Chinese", "English", "Cantonese", "French", "Italian", "Spanish", "German"),
    audio_token_key="audio_token_index",
    # Its config leaves these to transformers.
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
