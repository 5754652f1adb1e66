"""A small random checkpoint of Gemma 4 in its published format, and transformers' own model."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, normalizers
from tokenizers.models import BPE
from transformers.models.gemma4.configuration_gemma4 import Gemma4Config
from transformers.models.gemma4.feature_extraction_gemma4 import Gemma4AudioFeatureExtractor
from transformers.models.gemma4.modeling_gemma4 import Gemma4ForConditionalGeneration

from auricle_testing.checkpoints.other_models import MOST_TOKENS, generated, randomise

_SPECIAL = ("<pad>", "<eos>", "<bos>", "<unk>")
_TURNS = ("<|turn>", "<turn|>", "<|audio>", "<|audio|>", "<audio|>")
_VOCABULARY = 512
_AUDIO = {
    "model_type": "gemma4_audio",
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "hidden_act": "silu",
    "subsampling_conv_channels": [128, 8],
    "conv_kernel_size": 5,
    "residual_weight": 0.5,
    "attention_chunk_size": 12,
    "attention_context_left": 13,
    "attention_context_right": 0,
    "attention_logit_cap": 50.0,
    "attention_invalid_logits_value": -1e9,
    "use_clipped_linears": True,
    "rms_norm_eps": 1e-6,
    "gradient_clipping": 1e10,
    "output_proj_dims": 96,
}
# The text model resembles E2B: layers of two widths (the last layers have no keys of their own),
# and per-layer inputs for each token.
_TEXT = {
    "model_type": "gemma4_text",
    "vocab_size": _VOCABULARY,
    "hidden_size": 96,
    "intermediate_size": 128,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "global_head_dim": 64,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
    "sliding_window": 64,
    "num_kv_shared_layers": 3,
    "use_double_wide_mlp": True,
    "hidden_size_per_layer_input": 16,
    "vocab_size_per_layer_input": _VOCABULARY,
    "final_logit_softcapping": 30.0,
    "max_position_embeddings": 4096,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": 2,
    "tie_word_embeddings": False,
}


class GemmaStock:
    """transformers' own model, fed with whole recordings."""

    def __init__(self, model: Any, token: int, stops: list[int]) -> None:
        """`token` is the audio's placeholder."""
        self._model, self._token, self._stops = model, token, stops
        self._features = Gemma4AudioFeatureExtractor()
        self.most_tokens = MOST_TOKENS  # of an answer
        self.seconds = 0.0  # of the last recording's features and embeddings

    def _heard(self, pcm: np.ndarray) -> Any:
        return self._features([pcm], return_tensors="pt")

    @torch.inference_mode()
    def embeddings(self, pcm: np.ndarray) -> torch.Tensor:
        """The embeddings of the whole recording, (n, width)."""
        began = time.perf_counter()
        heard = self._heard(pcm)
        output = self._model.model.get_audio_features(
            heard.input_features, heard.input_features_mask, return_dict=True
        )
        self.seconds = time.perf_counter() - began
        found: torch.Tensor = output.pooler_output[output.attention_mask]
        return found

    def tokens(self, pcm: np.ndarray, head: tuple[int, ...], tail: tuple[int, ...]) -> list[int]:
        """Greedy tokens of the answer, including the one that ends it."""
        found: list[int] = self.logits(pcm, head, tail).argmax(1).tolist()
        return found

    @torch.inference_mode()
    def logits(self, pcm: np.ndarray, head: tuple[int, ...], tail: tuple[int, ...]) -> torch.Tensor:
        """The logits from which each token of the answer was chosen, (tokens, vocabulary)."""
        heard = self._heard(pcm)
        rows = int(heard.input_features_mask[:, ::2][:, ::2].sum())
        ids = torch.tensor([[*head, *[self._token] * rows, *tail]])
        inputs = {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "input_features": heard.input_features,
            "input_features_mask": heard.input_features_mask,
        }
        return generated(self._model, inputs, self._stops, 0, self.most_tokens)


def random_gemma4(path: Path, *, seed: int = 8, ends: Iterable[int] = ()) -> GemmaStock:
    """Write a checkpoint to `path`, with one tensor only of the vision part.

    Tokens of `ends` end an answer, too.
    """
    path.mkdir(parents=True, exist_ok=True)
    tokenizer = _write_tokenizer(path)
    audio, end = (_id(tokenizer, token) for token in ("<|audio|>", "<turn|>"))
    config = {
        "architectures": ["Gemma4ForConditionalGeneration"],
        "model_type": "gemma4",
        "audio_config": _AUDIO,
        "text_config": _TEXT,
        "audio_token_id": audio,
        # Placeholders of the inputs that are not audio lie beyond the vocabulary.
        **{f"{kind}_token_id": _VOCABULARY + at for at, kind in enumerate(("image", "video"), 1)},
        "tie_word_embeddings": False,
    }
    (path / "config.json").write_text(json.dumps(config))
    stops = [1, end, *ends]
    (path / "generation_config.json").write_text(json.dumps({"eos_token_id": stops}))
    read = Gemma4Config(**json.loads(json.dumps(config)))
    read._attn_implementation = "sdpa"
    model = Gemma4ForConditionalGeneration(read).eval()
    randomise(model, seed)
    weights = dict(model.state_dict())
    weights["model.vision_tower.patch.weight"] = torch.ones(2, 2)
    save_file({name: one.contiguous() for name, one in weights.items()}, path / "model.safetensors")
    return GemmaStock(model, audio, stops)


def _id(tokenizer: Tokenizer, token: str) -> int:
    found: int | None = tokenizer.token_to_id(token)
    assert found is not None
    return found


def _write_tokenizer(path: Path) -> Tokenizer:
    """Write a vocabulary of characters and bytes in Gemma's layout: no words, few merges."""
    letters = "▁abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:;'\n!?-{}|<>"
    names = [*_SPECIAL, *_TURNS, *(f"<0x{byte:02X}>" for byte in range(256)), *letters]
    merges = [("▁", "t"), ("h", "e"), ("▁t", "he"), ("▁", "d"), ("▁d", "o"), ("▁do", "g")]
    names += ["".join(pair) for pair in merges]
    model = BPE(
        vocab={name: at for at, name in enumerate(names)},
        merges=merges,
        byte_fallback=True,
        fuse_unk=True,
        unk_token="<unk>",
    )
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.add_special_tokens(
        [AddedToken(name, special=True, normalized=False) for name in (*_SPECIAL, *_TURNS)]
    )
    tokenizer.save(str(path / "tokenizer.json"))
    told = {
        "tokenizer_class": "GemmaTokenizer",
        **{f"{name[1:-1]}_token": name for name in _SPECIAL},
    }
    (path / "tokenizer_config.json").write_text(json.dumps(told))
    return tokenizer
