"""A single-process reference: encoder and decoder of a checkpoint in transformers.

Independent of auricle's own features, windows and serving: the published
feature extractor on the whole audio, one encoder pass, greedy decoding. It is
intentionally slow and simple.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer, DynamicCache, WhisperFeatureExtractor

from models.training.model import DemoModel
from models.training.prompts import language_ids, prompt_ids

STOPS = ("<|im_end|>", "<|endoftext|>")
_AUDIO, _TEXT = "thinker.audio_tower.", "thinker.model."
_PROJECTOR = {"proj1": "linear_1", "proj2": "linear_2"}


class Reference:
    """One checkpoint in the original format, in float32."""

    def __init__(self, path: Path) -> None:
        config = json.loads((path / "config.json").read_text())
        self.languages: tuple[str, ...] = tuple(config.get("support_languages", ()))
        self.model = DemoModel(config).eval()
        self.tokenizer = cast(Any, AutoTokenizer.from_pretrained(path, local_files_only=True))
        self._extractor = WhisperFeatureExtractor.from_pretrained(path, local_files_only=True)
        self._stops = [self.tokenizer.convert_tokens_to_ids(token) for token in STOPS]
        self._load(load_file(path / "model.safetensors"))

    def _load(self, weights: dict[str, torch.Tensor]) -> None:
        state: dict[str, torch.Tensor] = {}
        for name, value in weights.items():
            if name.startswith(_AUDIO):
                part, _, rest = name.removeprefix(_AUDIO).partition(".")
                if part in _PROJECTOR:
                    state[f"projector.{_PROJECTOR[part]}.{rest}"] = value.float()
                else:
                    state[f"encoder.{part}.{rest}"] = value.float()
            elif name.startswith(_TEXT):
                state[f"text.model.{name.removeprefix(_TEXT)}"] = value.float()
        head = weights.get("thinker.lm_head.weight")  # absent where it is tied to the embeddings
        tied = state["text.model.embed_tokens.weight"]
        state["text.lm_head.weight"] = tied if head is None else head.float()
        self.model.load_state_dict(state)

    @torch.inference_mode()
    def embeddings(self, samples: npt.NDArray[np.float32]) -> torch.Tensor:
        """One-shot encoding of 16 kHz mono samples: (n, hidden)."""
        features = self._extractor(
            samples, sampling_rate=16_000, padding=True, truncation=False, return_tensors="pt"
        ).input_features[0]
        return self.model.embed_audio([features])

    @torch.inference_mode()
    def tokens(
        self,
        samples: npt.NDArray[np.float32],
        *,
        context: str = "",
        prefix: tuple[int, ...] = (),
        max_tokens: int = 300,
    ) -> tuple[int, ...]:
        """Greedy answer tokens after a forced `prefix`, without the end of turn."""
        audio = self.embeddings(samples)
        return self.answer(audio, context=context, prefix=prefix, max_tokens=max_tokens)

    @torch.inference_mode()
    def answer(
        self,
        audio: torch.Tensor,
        *,
        context: str = "",
        prefix: tuple[int, ...] = (),
        max_tokens: int = 300,
    ) -> tuple[int, ...]:
        """The same, for audio that is already encoded by `embeddings`."""
        ids = torch.tensor([[*prompt_ids(self.tokenizer, context, len(audio)), *prefix]])
        embeds = self.model.text.model.embed_tokens(ids)
        audio_at = (ids == self.model.audio_token_id)[..., None]
        embeds = embeds.masked_scatter(audio_at, audio)
        cache = DynamicCache()
        answer: list[int] = []
        while len(answer) < max_tokens:
            logits = self.model.text(inputs_embeds=embeds, past_key_values=cache).logits
            token = int(logits[0, -1].argmax())
            if token in self._stops:
                break
            answer.append(token)
            embeds = self.model.text.model.embed_tokens(torch.tensor([[token]]))
        return tuple(answer)

    def text(self, tokens: tuple[int, ...]) -> str:
        """The words of an answer."""
        return self._parts(tokens)[1]

    def language(self, tokens: tuple[int, ...]) -> str:
        """The language name in an answer; `None` without speech."""
        return self._parts(tokens)[0].removeprefix("language").strip()

    def forced(self, language: str) -> tuple[int, ...]:
        """The prefix of an answer whose language is given."""
        return tuple(language_ids(self.tokenizer, language))

    def _parts(self, tokens: tuple[int, ...]) -> tuple[str, str]:
        raw: str = self.tokenizer.decode(list(tokens))
        opening, _, words = raw.partition("<asr_text>")
        return opening.strip(), words.strip()
