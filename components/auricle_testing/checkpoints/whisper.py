"""Small random checkpoints of Whisper in transformers' format, with the stock model."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import WhisperFeatureExtractor
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.whisper.configuration_whisper import WhisperConfig
from transformers.models.whisper.modeling_whisper import WhisperForConditionalGeneration

from auricle_testing.checkpoints.other_models import DEMO, MOST_TOKENS, randomise

# From the demo model's tokenizer: its last text token, and the control tokens after it.
_FIRST = 1084
_CONTROL = (
    "<|endoftext|>",
    "<|startoftranscript|>",
    "<|en|>",
    "<|de|>",
    "<|translate|>",
    "<|transcribe|>",
    "<|startofprev|>",
    "<|notimestamps|>",
)
END = _FIRST
_START, _NO_TIMESTAMPS = _FIRST + 1, _FIRST + 7
SUPPRESSED = (3, _START, _FIRST + 4, _FIRST + 5, _FIRST + 6)


class Stock:
    """transformers' own model, fed with whole recordings of at most 30 s."""

    def __init__(self, model: Any, bins: int) -> None:
        self._model = model
        self._features = WhisperFeatureExtractor(feature_size=bins)
        self.seconds = 0.0  # of the last recording's features and embeddings

    @torch.inference_mode()
    def embeddings(self, pcm: np.ndarray) -> torch.Tensor:
        """The encoder's output for 30 s, (1500, width)."""
        began = time.perf_counter()
        features = self._features(pcm, sampling_rate=16_000, return_tensors="pt").input_features
        found: torch.Tensor = self._model.model.encoder(features).last_hidden_state[0]
        self.seconds = time.perf_counter() - began
        return found

    def tokens(self, pcm: np.ndarray, head: tuple[int, ...], tail: tuple[int, ...]) -> list[int]:
        """Greedy tokens of the answer, including the one that ends it."""
        found: list[int] = self.logits(pcm, head, tail).argmax(1).tolist()
        return found

    @torch.inference_mode()
    def logits(self, pcm: np.ndarray, head: tuple[int, ...], tail: tuple[int, ...]) -> torch.Tensor:
        """The logits from which each token of the answer was chosen, (tokens, vocabulary)."""
        heard = BaseModelOutput(last_hidden_state=self.embeddings(pcm)[None])
        ids = [*head, *tail]
        found: list[torch.Tensor] = []
        while len(found) < MOST_TOKENS and not (found and ids[-1] == END):
            step = self._model(encoder_outputs=heard, decoder_input_ids=torch.tensor([ids]))
            logits = step.logits[0, -1].float()
            logits[[*SUPPRESSED, *range(_NO_TIMESTAMPS, len(logits))]] = -torch.inf
            found.append(logits)
            ids.append(int(logits.argmax()))
        return torch.stack(found)


def random_whisper(
    path: Path,
    *,
    seed: int = 7,
    vocabulary: int = 51865,
    bins: int = 80,
    sizes: Mapping[str, int] | None = None,
    dtype: torch.dtype = torch.float32,
) -> Stock:
    """Write a checkpoint to `path`; with a smaller vocabulary it is an English-only model.

    `sizes` overrides values of the config; the weights are stored as `dtype`.
    """
    config = {
        "architectures": ["WhisperForConditionalGeneration"],
        "model_type": "whisper",
        "is_encoder_decoder": True,
        "activation_function": "gelu",
        "d_model": 64,
        "num_mel_bins": bins,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "num_hidden_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 128,
        "decoder_ffn_dim": 128,
        "vocab_size": vocabulary,
        "max_source_positions": 1500,
        "max_target_positions": 448,
        "scale_embedding": False,
        "bos_token_id": END,
        "eos_token_id": END,
        "pad_token_id": END,
        "decoder_start_token_id": _START,
        "tie_word_embeddings": True,
        **(sizes or {}),
    }
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(config))
    _write_tokenizer(path)
    generation = {
        "eos_token_id": END,
        "no_timestamps_token_id": _NO_TIMESTAMPS,
        "suppress_tokens": list(SUPPRESSED),
    }
    (path / "generation_config.json").write_text(json.dumps(generation))
    read = WhisperConfig(**config)
    read._attn_implementation = "sdpa"
    model = WhisperForConditionalGeneration(read).eval()
    randomise(model, seed)
    _sharpen(model, seed)
    tied = {"proj_out.weight"}
    weights = {
        name: one.to(dtype).contiguous()
        for name, one in model.state_dict().items()
        if name not in tied
    }
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    return Stock(model, bins)


def random_english_whisper(path: Path) -> Stock:
    """Write an English-only checkpoint."""
    return random_whisper(path, vocabulary=1152)


def answers_that_end(stock: Stock, path: Path) -> Stock:
    """Edit the checkpoint in `path` to end each answer before position 14.

    Without this, random weights repeat themselves. Returns its stock model.
    """
    file, name = path / "model.safetensors", "model.decoder.embed_positions.weight"
    weights = load_file(file)
    end = weights["model.decoder.embed_tokens.weight"][END]
    weights[name][13:] += 100 * end / end.norm()
    save_file(weights, file, metadata={"format": "pt"})
    with torch.no_grad():
        stock._model.model.decoder.embed_positions.weight.copy_(weights[name])
    return stock


def _sharpen(model: Any, seed: int) -> None:
    """Make answers depend on a few positions of the audio, and less on the previous token."""
    noise = torch.Generator().manual_seed(seed)
    decoder = model.model.decoder
    with torch.no_grad():
        places = decoder.embed_positions.weight
        places.copy_(0.05 * torch.randn(places.shape, generator=noise))
        decoder.embed_tokens.weight.mul_(0.1)
        for layer in decoder.layers:
            layer.encoder_attn.q_proj.weight.mul_(16.0)
            layer.encoder_attn.out_proj.weight.mul_(3.0)


def _write_tokenizer(path: Path) -> None:
    for name in ("vocab.json", "merges.txt"):
        (path / name).write_bytes((DEMO / name).read_bytes())
    token = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    config = {
        "added_tokens_decoder": {
            str(_FIRST + at): {"content": content, "special": True, **token}
            for at, content in enumerate(_CONTROL)
        },
        "add_prefix_space": False,
        "eos_token": "<|endoftext|>",
    }
    (path / "tokenizer_config.json").write_text(json.dumps(config))
