"""Small random checkpoints of models other than Qwen3-ASR, in their published formats.

Each comes with transformers' stock model with the same weights.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import WhisperFeatureExtractor
from transformers.models.qwen2_audio.configuration_qwen2_audio import Qwen2AudioConfig
from transformers.models.qwen2_audio.modeling_qwen2_audio import Qwen2AudioForConditionalGeneration
from transformers.models.qwen3_asr.configuration_qwen3_asr import Qwen3ASRConfig
from transformers.models.qwen3_asr.feature_extraction_qwen3_asr import Qwen3ASRFeatureExtractor
from transformers.models.qwen3_asr.modeling_qwen3_asr import Qwen3ASRForConditionalGeneration
from transformers.models.qwen3_omni_moe.configuration_qwen3_omni_moe import (
    Qwen3OmniMoeThinkerConfig,
)
from transformers.models.qwen3_omni_moe.modeling_qwen3_omni_moe import (
    Qwen3OmniMoeThinkerForConditionalGeneration,
)

from auricle_testing.server import ROOT

DEMO = ROOT / "models/demo"
AUDIO_START, AUDIO_END, AUDIO_PAD = 1087, 1088, 1089
END, END_OF_TEXT = 1086, 1084
# As published, except for the sizes.
_OMNI_AUDIO = {
    "model_type": "qwen3_omni_moe_audio_encoder",
    "num_mel_bins": 128,
    "encoder_layers": 2,
    "num_hidden_layers": 2,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "d_model": 64,
    "dropout": 0,
    "attention_dropout": 0,
    "activation_function": "gelu",
    "activation_dropout": 0,
    "scale_embedding": False,
    "initializer_range": 0.02,
    "max_source_positions": 1500,
    "n_window": 50,
    "n_window_infer": 800,
    "conv_chunksize": 500,
    "downsample_hidden_size": 16,
    "output_dim": 96,
}
_OMNI_TEXT = {
    "model_type": "qwen3_omni_moe_text",
    "vocab_size": 1152,
    "hidden_size": 96,
    "intermediate_size": 96,
    "moe_intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "head_dim": 64,
    "hidden_act": "silu",
    "max_position_embeddings": 4096,
    "initializer_range": 0.02,
    "rms_norm_eps": 1e-6,
    "use_cache": True,
    "rope_theta": 1000000,
    "rope_scaling": {
        "interleaved": True,
        "mrope_interleaved": True,
        "mrope_section": [12, 10, 10],
        "rope_type": "default",
        "type": "default",
    },
    "attention_bias": False,
    "sliding_window": None,
    "attention_dropout": 0.0,
    "decoder_sparse_step": 1,
    "num_experts_per_tok": 2,
    "num_experts": 4,
    "norm_topk_prob": True,
    "output_router_logits": False,
    "mlp_only_layers": [],
    "tie_word_embeddings": False,
}
_OMNI_VISION = {
    "model_type": "qwen3_omni_moe_vision_encoder",
    "depth": 1,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_heads": 2,
    "out_hidden_size": 96,
    "deepstack_visual_indexes": [],
}

_ASR_AUDIO = {
    **{k: v for k, v in _OMNI_AUDIO.items() if k not in ("conv_chunksize", "max_source_positions")},
    "model_type": "qwen3_asr_encoder",
}
_ASR_TEXT = {
    "model_type": "qwen3",
    "vocab_size": 1152,
    "hidden_size": 96,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "head_dim": 64,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000,
    "tie_word_embeddings": False,
}
_AUDIO2_AUDIO = {
    "model_type": "qwen2_audio_encoder",
    "num_mel_bins": 128,
    "encoder_layers": 2,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "encoder_layerdrop": 0.0,
    "d_model": 64,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "activation_function": "gelu",
    "activation_dropout": 0.0,
    "scale_embedding": False,
    "init_std": 0.02,
    "max_source_positions": 1500,
}
_AUDIO2_TEXT = {
    "model_type": "qwen2",
    "vocab_size": 1152,
    "hidden_size": 192,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "num_key_value_heads": 3,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000,
    "sliding_window": 32768,
    "use_sliding_window": False,
}
MOST_TOKENS = 12


class Listens(Protocol):
    """A stock model, fed with whole recordings; `seconds` are of the last one's embeddings."""

    seconds: float

    def embeddings(self, pcm: np.ndarray) -> torch.Tensor:
        """The embeddings of the whole recording, (n, width)."""
        ...

    def tokens(self, pcm: np.ndarray, head: tuple[int, ...], tail: tuple[int, ...]) -> list[int]:
        """Greedy tokens of the answer, including the one that ends it."""
        ...

    def logits(self, pcm: np.ndarray, head: tuple[int, ...], tail: tuple[int, ...]) -> torch.Tensor:
        """The logits from which each token of the answer was chosen, (tokens, vocabulary)."""
        ...


class Stock:
    """transformers' own model, fed with whole recordings."""

    def __init__(
        self,
        model: Any,
        projector: Any,
        *,
        whole_chunks: bool,
        mask: str = "feature_attention_mask",
        features: Any = None,
    ) -> None:
        """`projector` is the module whose outputs are the embeddings.

        `mask` is the model's argument for the mask of its features. The features are Whisper's
        unless there is an extractor in `features`.
        """
        self._model = model
        self._mask = mask
        self._features = features or WhisperFeatureExtractor(feature_size=128)
        self._padding = "max_length" if whole_chunks else True
        self._seen: list[torch.Tensor] = []
        self._began = 0.0
        self.seconds = 0.0  # of the last recording's features and embeddings
        projector.register_forward_hook(self._embedded)
        next(
            m for name, m in model.named_modules() if name.endswith("audio_tower")
        ).register_forward_pre_hook(self._entered)

    def _entered(self, *_call: Any) -> None:
        self._began = time.perf_counter()

    def _embedded(self, _module: Any, _inputs: Any, output: torch.Tensor) -> None:
        self._seen.append(output)
        self.seconds += time.perf_counter() - self._began

    def _inputs(self, pcm: np.ndarray, head: tuple[int, ...], tail: tuple[int, ...]) -> Any:
        """Inputs of the model, by the published feature extractor."""
        began = time.perf_counter()
        found = self._features(
            pcm, sampling_rate=16_000, return_tensors="pt", return_attention_mask=True,
            padding=self._padding, truncation=False,
        )  # fmt: skip
        self.seconds = time.perf_counter() - began
        frames = int(found.attention_mask.sum())
        ids = torch.tensor([[*head, *[AUDIO_PAD] * self._length(frames), *tail]])
        return {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "input_features": found.input_features,
            self._mask: found.attention_mask,
        }

    def _length(self, frames: int) -> int:
        if self._padding == "max_length":
            return (((frames - 1) // 2 + 1) - 2) // 2 + 1
        whole, rest = divmod(frames, 100)
        return 13 * whole + (rest + 7) // 8

    @torch.inference_mode()
    def embeddings(self, pcm: np.ndarray) -> torch.Tensor:
        """The embeddings of the whole recording, (n, width)."""
        inputs = self._inputs(pcm, (AUDIO_START,), (AUDIO_END,))
        self._seen.clear()
        self._model(**inputs)
        (found,) = self._seen
        return found.reshape(-1, found.shape[-1])[: inputs["input_ids"].shape[1] - 2]

    def tokens(self, pcm: np.ndarray, head: tuple[int, ...], tail: tuple[int, ...]) -> list[int]:
        """Greedy tokens of the answer, including the one that ends it."""
        found: list[int] = self.logits(pcm, head, tail).argmax(1).tolist()
        return found

    @torch.inference_mode()
    def logits(self, pcm: np.ndarray, head: tuple[int, ...], tail: tuple[int, ...]) -> torch.Tensor:
        """The logits from which each token of the answer was chosen, (tokens, vocabulary)."""
        return generated(
            self._model, self._inputs(pcm, head, tail), [END, END_OF_TEXT], END_OF_TEXT
        )


def generated(
    model: Any, inputs: Any, stops: list[int], pad: int, most: int = MOST_TOKENS
) -> torch.Tensor:
    """The logits of a greedy answer up to a maximum number of tokens, (tokens, vocabulary)."""
    output = model.generate(
        **inputs,
        do_sample=False,
        max_new_tokens=most,
        eos_token_id=stops,
        pad_token_id=pad,
        output_logits=True,
        return_dict_in_generate=True,
    )
    chosen = output.sequences[0, inputs["input_ids"].shape[1] :]
    logits = torch.cat(output.logits).float()
    assert torch.equal(logits.argmax(1), chosen)
    return logits


def random_qwen3_asr(path: Path, *, seed: int = 4, audio: Mapping[str, int] | None = None) -> Stock:
    """Write one to `path`, in transformers' format; `audio` overrides sizes of its encoder."""
    config = {
        "architectures": ["Qwen3ASRForConditionalGeneration"],
        "model_type": "qwen3_asr",
        "audio_config": _ASR_AUDIO | dict(audio or {}),
        "text_config": _ASR_TEXT,
        "audio_token_id": AUDIO_PAD,
        "tie_word_embeddings": False,
    }
    _write(path, config)
    read = Qwen3ASRConfig(**json.loads(json.dumps(config)))
    read._attn_implementation = "sdpa"
    model = Qwen3ASRForConditionalGeneration(read).eval()
    randomise(model, seed)
    weights = {name: one.contiguous() for name, one in model.state_dict().items()}
    save_file(weights, path / "model.safetensors")
    return Stock(
        model,
        model.model.multi_modal_projector,
        whole_chunks=False,
        mask="input_features_mask",
        features=Qwen3ASRFeatureExtractor(),
    )


def random_omni(path: Path, *, seed: int = 5) -> Stock:
    """Write one to `path`: one tensor per expert, and some tensors of its vision and speech."""
    thinker = {
        "model_type": "qwen3_omni_moe_thinker",
        "audio_config": _OMNI_AUDIO,
        "text_config": _OMNI_TEXT,
        "vision_config": _OMNI_VISION,
        "audio_token_id": AUDIO_PAD,
        "audio_start_token_id": AUDIO_START,
        "audio_end_token_id": AUDIO_END,
        "position_id_per_seconds": 13,
        "vision_start_token_id": 1140,
        "vision_end_token_id": 1141,
        "image_token_id": 1142,
        "video_token_id": 1143,
    }
    config = {
        "architectures": ["Qwen3OmniMoeForConditionalGeneration"],
        "model_type": "qwen3_omni_moe",
        "enable_audio_output": False,
        "thinker_config": thinker,
    }
    _write(path, config)
    read = Qwen3OmniMoeThinkerConfig(**json.loads(json.dumps(thinker)))
    read._attn_implementation = "sdpa"
    model = Qwen3OmniMoeThinkerForConditionalGeneration(read).eval()
    randomise(model, seed)
    weights: dict[str, torch.Tensor] = {}
    for name, tensor in model.state_dict().items():
        if ".mlp.experts." not in name:
            weights[f"thinker.{name}"] = tensor
            continue
        experts, _, both = name.rpartition(".")
        for number, one in enumerate(tensor):
            parts = {"down_proj": one}
            if both == "gate_up_proj":
                gate, up = one.chunk(2)
                parts = {"gate_proj": gate, "up_proj": up}
            for part, value in parts.items():
                weights[f"thinker.{experts}.{number}.{part}.weight"] = value.clone()
    weights["talker.codec_head.weight"] = torch.ones(2, 2)
    weights["code2wav.conv.weight"] = torch.ones(2, 2)
    save_file({name: one.contiguous() for name, one in weights.items()}, path / "model.safetensors")
    return Stock(model, model.audio_tower.proj2, whole_chunks=False)


def random_qwen2_audio(path: Path, *, seed: int = 6) -> Stock:
    """Write one to `path`."""
    config = {
        "architectures": ["Qwen2AudioForConditionalGeneration"],
        "model_type": "qwen2_audio",
        "audio_token_index": AUDIO_PAD,
        "audio_config": _AUDIO2_AUDIO,
        "text_config": _AUDIO2_TEXT,
        "vocab_size": 1152,
    }
    renamed = {
        "<|audio_start|>": "<|audio_bos|>",
        "<|audio_end|>": "<|audio_eos|>",
        "<|audio_pad|>": "<|AUDIO|>",
    }
    _write(path, config, renamed)
    read = Qwen2AudioConfig(**json.loads(json.dumps(config)))
    read._attn_implementation = "sdpa"
    model = Qwen2AudioForConditionalGeneration(read).eval()
    randomise(model, seed)
    published = (
        ("model.language_model.", "language_model.model."),
        ("lm_head.", "language_model.lm_head."),
        ("model.", ""),
    )
    weights = {}
    for name, tensor in model.state_dict().items():
        old, new = next((old, new) for old, new in published if name.startswith(old))
        weights[new + name.removeprefix(old)] = tensor.contiguous()
    save_file(weights, path / "model.safetensors")
    return Stock(model, model.model.multi_modal_projector, whole_chunks=True)


def _write(path: Path, config: dict[str, Any], renamed: dict[str, str] | None = None) -> None:
    """Write config.json and the demo model's tokenizer with some tokens renamed."""
    path.mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer_config.json", "vocab.json", "merges.txt"):
        shutil.copyfile(DEMO / name, path / name)
    tokenizer = (path / "tokenizer_config.json").read_text()
    for old, new in (renamed or {}).items():
        tokenizer = tokenizer.replace(old, new)
    (path / "tokenizer_config.json").write_text(tokenizer)
    (path / "config.json").write_text(json.dumps(config))
    ends = {"eos_token_id": [END, END_OF_TEXT], "pad_token_id": END_OF_TEXT}
    (path / "generation_config.json").write_text(json.dumps(ends))


def randomise(model: Any, seed: int) -> None:
    """Draw weights that make layers matter and answers differ.

    With the default initialisation they hardly do.
    """
    noise = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if value.dim() > 1 and "embed_positions" not in name:
                # Experts are stacked; a convolution's inputs are all dimensions but its first.
                inputs = value.shape[-1] if ".experts." in name else value[0].numel()
                scale = 0.5 if "embed_tokens" in name else 0.7 * inputs**-0.5
                value.copy_(torch.randn(value.shape, generator=noise) * scale)
