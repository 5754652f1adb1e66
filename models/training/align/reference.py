"""A checkpoint in the aligner's original format, run by transformers in one process, no server.

It measures the results of training, and serves as a reference for a server's answers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from transformers import AutoTokenizer, WhisperFeatureExtractor

from models.training.align.decode import Times, word_times
from models.training.align.model import Aligner
from models.training.align.prompts import prompt_ids


class AlignerReference:
    """One checkpoint, in float32."""

    def __init__(self, path: Path) -> None:
        self.model = Aligner(json.loads((path / "config.json").read_text())).eval()
        self.model.load_published(path / "model.safetensors")
        self.tokenizer = cast(Any, AutoTokenizer.from_pretrained(path, local_files_only=True))
        self._extractor = WhisperFeatureExtractor.from_pretrained(path, local_files_only=True)

    @torch.inference_mode()
    def bins(self, samples: npt.NDArray[np.float32], words: Sequence[str]) -> torch.Tensor:
        """16 kHz mono samples and their words → the best bin at each `<timestamp>`, (2n,)."""
        features = self._extractor(
            samples, sampling_rate=16_000, padding=True, truncation=False, return_tensors="pt"
        ).input_features[0]
        audio = self.model.embed_audio([features])
        ids = torch.tensor([prompt_ids(self.tokenizer, words, len(audio))])
        hidden = self.model(audio, ids, torch.ones_like(ids)).layers[-1]
        return self.model.bins(hidden[ids == self.model.timestamp]).argmax(-1)

    def times(self, samples: npt.NDArray[np.float32], words: Sequence[str]) -> list[Times]:
        """(start, end) in seconds of each word, in non-decreasing order."""
        return word_times(self.bins(samples, words))
