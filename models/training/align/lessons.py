"""Cheap lessons in counting time for the lower text layers, without the rest of the model.

An audio embedding does not encode its time: encoder windows look the same at any position, and the
text model's rotary positions are relative. The text model has to count embeddings from the prompt's
first token, and words from the token after the audio. To learn that, it needs neither new speech
nor the upper layers, but many examples of every length.
"""

from __future__ import annotations

import copy
import random
from typing import Any

import torch
from torch import nn
from transformers import Qwen3Model

from models.training.align.examples import Clip, Spoken
from models.training.align.losses import LISTENED
from models.training.align.model import Aligner
from models.training.sentences import vocabulary
from models.training.spans import Span

_SECONDS = 31.0
_FRAMES_A_SECOND, _WINDOW_SECONDS = 13, 8
_NOWHERE = Span(None, None)


class Lessons:
    """Prompts of random words after encoder windows in random order."""

    def __init__(self, model: Aligner, audio: torch.Tensor, seed: int) -> None:
        """`audio` is (n, hidden): embeddings of some speech, in whole windows of 8 s."""
        whole = model.core.model.language_model
        config = copy.deepcopy(whole.config)
        config.num_hidden_layers = LISTENED
        config.layer_types = config.layer_types[:LISTENED]
        self._lower: Any = Qwen3Model(config)
        self._lower.embed_tokens, self._lower.norm = whole.embed_tokens, nn.Identity()
        self._lower.layers = whole.layers[:LISTENED]
        self._model, self._dice = model, random.Random(seed)
        self._windows = audio.detach().unflatten(0, (-1, _WINDOW_SECONDS * _FRAMES_A_SECOND))
        self._words = vocabulary()

    def make(self, seconds: float) -> tuple[list[Clip], list[torch.Tensor]]:
        """Clips of `seconds` in total, whose words have no times, and their embeddings."""
        clips, audio, left = [], [], seconds
        while left > 0:
            length = self._dice.uniform(2.0, _SECONDS)
            left -= length
            count = max(1, int(length * self._dice.uniform(0.3, 4.0)))
            said = tuple(Spoken(self._dice.choice(self._words), _NOWHERE) for _ in range(count))
            clips.append(Clip(torch.zeros(0).numpy(), said, ()))
            audio.append(self._audio(int(length * _FRAMES_A_SECOND)))
        return clips, audio

    def _audio(self, frames: int) -> torch.Tensor:
        """Windows in random order, each rotated by some seconds."""
        parts = []
        while sum(map(len, parts)) < frames:
            window = self._windows[self._dice.randrange(len(self._windows))]
            turn = self._dice.randrange(_WINDOW_SECONDS) * _FRAMES_A_SECOND
            parts.append(window.roll(turn, 0))
        return torch.cat(parts)[:frames]

    def hidden(self, audio: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Hidden states of prompts after the lower layers, (batch, n, hidden)."""
        embeds = self._lower.embed_tokens(ids)
        places = (ids == self._model.config.audio_token_id)[..., None]
        embeds = embeds.masked_scatter(places, audio.to(embeds.dtype))
        found: torch.Tensor = self._lower(
            inputs_embeds=embeds, attention_mask=mask, use_cache=False
        ).last_hidden_state
        return found
