"""A single-process reference: the translator in transformers, greedy, one request at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import torch
from transformers import AutoTokenizer, Qwen3ForCausalLM

from models.training.translate.geometry import END
from models.training.translate.prompts import Prompts, Turn

_MOST_TOKENS = 160


class Translator:
    """One checkpoint in the Qwen3 format, in float32."""

    def __init__(self, path: Path) -> None:
        tokenizer = cast(Any, AutoTokenizer.from_pretrained(path, local_files_only=True))
        self._tokenizer, self._prompts = tokenizer, Prompts(tokenizer)
        self._model = Qwen3ForCausalLM.from_pretrained(
            path, local_files_only=True, dtype=torch.float32
        ).eval()
        self._end = tokenizer.convert_tokens_to_ids(END)

    @torch.inference_mode()
    def continued(self, turn: Turn, terms: tuple[tuple[str, str], ...] = ()) -> str:
        """Return what follows `turn.given`."""
        ids = [*self._prompts.system(terms), *self._prompts.asked(turn)]
        asked = torch.tensor([ids])
        made = cast(Any, self._model).generate(
            asked,
            attention_mask=torch.ones_like(asked),
            max_new_tokens=_MOST_TOKENS,
            do_sample=False,
            eos_token_id=self._end,
        )[0, len(ids) :]
        answer = [token for token in made.tolist() if token != self._end]
        return str(self._tokenizer.decode(answer))

    def translated(self, source: str, terms: tuple[tuple[str, str], ...] = ()) -> str:
        """Return the translation of a whole text."""
        return self.continued(Turn(source, ""), terms)
