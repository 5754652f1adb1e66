"""A small aligner with random weights, in the published format: its times are meaningless."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file, save_file
from transformers import Qwen2Tokenizer
from transformers.models.qwen3_asr.feature_extraction_qwen3_asr import Qwen3ASRFeatureExtractor
from transformers.models.qwen3_asr.modeling_qwen3_asr import Qwen3ASRForTokenClassification
from transformers.models.qwen3_asr.processing_qwen3_asr import _fix_timestamps

from auricle_testing.server import ROOT

DEMO = ROOT / "models/demo"
CLASSES, STEP_MS, TIMESTAMP = 400, 80, 1091
LANGUAGES = ("English", "Chinese")


def random_aligner(path: Path, *, seed: int = 7) -> Path:
    """Write one with the demo model's geometry to `path`, with its own audio and text weights."""
    path.mkdir(parents=True, exist_ok=True)
    for file in DEMO.iterdir():
        if file.is_file() and file.suffix in (".json", ".txt"):
            shutil.copyfile(file, path / file.name)
    tokenizer = json.loads((path / "tokenizer_config.json").read_text())
    added = dict(tokenizer["added_tokens_decoder"]["1090"], content="<timestamp>")
    tokenizer["added_tokens_decoder"][str(TIMESTAMP)] = added
    (path / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    config = json.loads((path / "config.json").read_text())
    config |= {
        "timestamp_token_id": TIMESTAMP,
        "timestamp_segment_time": STEP_MS,
        "support_languages": list(LANGUAGES),
    }
    thinker = config["thinker_config"]
    thinker |= {"model_type": "qwen3_forced_aligner", "classify_num": CLASSES}
    thinker["text_config"] |= {"tie_word_embeddings": False}
    (path / "config.json").write_text(json.dumps(config))
    noise = torch.Generator().manual_seed(seed)
    weights = {
        name: (value.float() + 0.05 * torch.randn(value.shape, generator=noise)).to(value.dtype)
        for name, value in load_file(DEMO / "model.safetensors").items()
    }
    width = thinker["text_config"]["hidden_size"]
    weights["thinker.lm_head.weight"] = torch.randn(CLASSES, width, generator=noise).bfloat16()
    save_file(weights, path / "model.safetensors")
    return path


def as_transformers(path: Path) -> None:
    """Convert an aligner to transformers' own format."""
    config = json.loads((path / "config.json").read_text())
    thinker = config["thinker_config"]
    flat = {
        "model_type": "qwen3_asr",
        "architectures": ["Qwen3ASRForTokenClassification"],
        "audio_token_id": thinker["audio_token_id"],
        "timestamp_token_id": TIMESTAMP,
        "id2label": {str(n): str(n) for n in range(CLASSES)},
        "audio_config": {**thinker["audio_config"], "model_type": "qwen3_asr_encoder"},
        "text_config": thinker["text_config"],
    }
    (path / "config.json").write_text(json.dumps(flat))
    (path / "processor_config.json").write_text(json.dumps({"timestamp_segment_time": STEP_MS}))
    names = (
        ("thinker.audio_tower.proj1", "model.multi_modal_projector.linear_1"),
        ("thinker.audio_tower.proj2", "model.multi_modal_projector.linear_2"),
        ("thinker.audio_tower", "model.audio_tower"),
        ("thinker.model", "model.language_model"),
        ("thinker.lm_head", "score"),
    )
    renamed = {}
    for name, tensor in load_file(path / "model.safetensors").items():
        old, new = next((old, new) for old, new in names if name.startswith(old))
        renamed[name.replace(old, new, 1)] = tensor
    save_file(renamed, path / "model.safetensors")


class Reference:
    """transformers' own aligner, in float32: from audio and words to logits and times."""

    def __init__(self, path: Path, scratch: Path) -> None:
        shutil.copytree(path, scratch)
        as_transformers(scratch)
        self._tokenizer = Qwen2Tokenizer.from_pretrained(path, local_files_only=True)
        loaded: Any = Qwen3ASRForTokenClassification.from_pretrained(scratch, dtype=torch.float32)
        self._model = loaded.eval()
        self._extractor = Qwen3ASRFeatureExtractor()

    @torch.inference_mode()
    def logits(self, samples: npt.NDArray[np.float32], words: Sequence[str]) -> torch.Tensor:
        """One pass over the whole audio: (timestamps, classes)."""
        found = self._extractor(
            [samples], sampling_rate=16_000, padding=True, return_attention_mask=True
        )
        mask = found["attention_mask"]
        features = {"input_features": found["input_features"], "input_features_mask": mask}
        audio = self._model.model.get_audio_features(**features).pooler_output
        text = "".join(f"{word}<timestamp><timestamp>" for word in words)
        prompt = f"<|audio_start|>{'<|audio_pad|>' * len(audio)}<|audio_end|>{text}"
        ids = torch.tensor([self._tokenizer(prompt, add_special_tokens=False).input_ids])
        logits: torch.Tensor = self._model(input_ids=ids, **features).logits[0]
        return logits[ids[0] == TIMESTAMP]

    def times(self, samples: npt.NDArray[np.float32], words: Sequence[str]) -> list[int]:
        """Begin and end of each word in milliseconds, repaired as transformers repairs them."""
        raw = self.logits(samples, words).argmax(-1).numpy().astype(np.float32) * STEP_MS
        repaired: list[int] = _fix_timestamps(raw)
        return repaired
