"""Train the demo translator on the CPU; resumes from its last checkpoint.

python -m models.training.translate.train --work build/translate
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional
from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

from models.training.tokenizer import write_tokenizer
from models.training.translate.examples import Conversation, ConversationMaker
from models.training.translate.geometry import SPECIAL_TOKENS, translator_config
from models.training.translate.instructions import CONTROL
from models.training.translate.parallel import Sentence, training
from models.training.translate.prompts import MORE, Prompts, instruction

_PEAK_RATE = 3e-3
_WARM_UP_STEPS = 100
_BATCH_TOKENS = 800
_POOL = 8  # batches that are sorted by length together
_SAVE_EVERY = 100
_IGNORE = -100
_ALIKE = 0.7  # cosine
STEPS = 9_000


class Trainer:
    """Owns the model, the optimiser and the position in the schedule."""

    def __init__(self, work: Path, sentences: Sequence[Sentence], steps: int) -> None:
        torch.manual_seed(0)
        self._work, self._steps = work, steps
        write_tokenizer(work, known_words(sentences), SPECIAL_TOKENS)
        tokenizer = AutoTokenizer.from_pretrained(work)
        ids = {token: tokenizer.convert_tokens_to_ids(token) for token in SPECIAL_TOKENS}
        config = translator_config(ids, -(-len(tokenizer) // 64) * 64)
        (work / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        self.prompts = Prompts(tokenizer)
        self.model = Qwen3ForCausalLM(Qwen3Config(**config)).float()
        self._begin_alike(tokenizer, sentences)
        self._pad = ids["<|endoftext|>"]
        self._optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=_PEAK_RATE, weight_decay=0.01, betas=(0.9, 0.98)
        )
        self.step = 0

    @torch.no_grad()
    def _begin_alike(self, tokenizer: Any, sentences: Sequence[Sentence]) -> None:
        """Initialise each word's embedding close to its most likely source word, and close to its
        form inside a sentence, so that translating begins as copying.
        """
        vectors = self.model.get_input_embeddings().weight

        def near(word: str, other: str) -> None:
            one, of = (tokenizer(text).input_ids for text in (word, other))
            if len(one) == len(of) == 1:
                vectors[one[0]] = _ALIKE * vectors[of[0]] + (1 - _ALIKE**2) ** 0.5 * vectors[one[0]]

        for word, origin in sorted(origins(sentences).items()):
            near(f" {word}", f" {origin}")
        for word in known_words(sentences):
            near(word, f" {word}")

    def resume(self) -> None:
        path = self._work / "checkpoint.pt"
        if path.exists():
            state = torch.load(path, weights_only=True)
            self.model.load_state_dict(state["model"])
            self._optimizer.load_state_dict(state["optimizer"])
            self.step = state["step"]

    def save(self) -> None:
        state = {
            "model": self.model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "step": self.step,
        }
        torch.save(state, self._work / "checkpoint.tmp")
        (self._work / "checkpoint.tmp").replace(self._work / "checkpoint.pt")

    def _rate(self) -> float:
        warm = min(1.0, (self.step + 1) / _WARM_UP_STEPS)
        return _PEAK_RATE * warm * max(0.01, 1.0 - self.step / self._steps)

    def row(self, conversation: Conversation) -> tuple[list[int], list[int]]:
        """Return the ids of a conversation, and the learned ones (`_IGNORE` for the others)."""
        ids = self.prompts.system(conversation.terms)
        learned = [_IGNORE] * len(ids)
        for turn in conversation.turns:
            asked, answer = self.prompts.asked(turn), self.prompts.answered(turn)
            closed = self.prompts.closed()
            ids += [*asked, *answer, *closed]
            learned += [*[_IGNORE] * len(asked), *answer, *[_IGNORE] * len(closed)]
        return ids, learned

    def train_step(self, rows: Sequence[tuple[list[int], list[int]]]) -> float:
        """One optimiser step; returns the cross-entropy."""
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate()
        width = max(len(ids) for ids, _ in rows)
        ids = torch.tensor([r + [self._pad] * (width - len(r)) for r, _ in rows])
        target = torch.tensor([r + [_IGNORE] * (width - len(r)) for _, r in rows])[:, 1:]
        # Padding comes last and attention is causal: no mask is needed.
        hidden = self.model.model(input_ids=ids).last_hidden_state[:, :-1]
        wanted = target != _IGNORE
        loss = functional.cross_entropy(self.model.lm_head(hidden[wanted]), target[wanted])
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self._optimizer.step()
        self.step += 1
        return loss.item()


def known_words(sentences: Sequence[Sentence]) -> list[str]:
    """Return every word of the training's sources and translations; each is one token."""
    words: set[str] = set()
    for sentence in sentences:
        words.update(sentence.words)
        words.update(word for text in sentence.said for word in text.split())
    words -= {piece for control in CONTROL for piece in control.split()}
    signs = "".join(CONTROL) + MORE + instruction((("", ""),))
    pieces = "".join(c if c.isalpha() else f" {c} " for c in signs).split()
    return sorted(words | set(pieces) | {"<|", "|>"})


def origins(sentences: Sequence[Sentence]) -> dict[str, str]:
    """Return each translated word's most likely source word, by the Dice coefficient."""
    together: Counter[tuple[str, str]] = Counter()
    alone: Counter[str] = Counter()
    for sentence in sentences:
        source, target = set(sentence.words), set(sentence.said[-1].split())
        together.update((t, s) for t in target for s in source)
        alone.update(f"<{s}" for s in source)
        alone.update(f">{t}" for t in target)
    found: dict[str, tuple[float, str]] = {}
    for (t, s), count in together.items():
        share = 2 * count / (alone[f">{t}"] + alone[f"<{s}"])
        found[t] = max(found.get(t, (0.0, "")), (share, s))
    return {t: s for t, (_, s) in found.items() if t != s}


def batches(trainer: Trainer, maker: ConversationMaker) -> Any:
    """Yield lists of rows of similar length, without end."""
    while True:
        rows = sorted(
            (trainer.row(maker.make()) for _ in range(_POOL * 12)), key=lambda r: len(r[0])
        )
        made: list[list[tuple[list[int], list[int]]]] = [[]]
        for row in rows:
            if made[-1] and len(row[0]) * (len(made[-1]) + 1) > _BATCH_TOKENS:
                made.append([])
            made[-1].append(row)
        order = torch.randperm(len(made)).tolist()
        yield from (made[at] for at in order)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    sentences = training(arguments.work)
    trainer = Trainer(arguments.work, sentences, arguments.steps)
    trainer.resume()
    some = batches(trainer, ConversationMaker(sentences, seed=trainer.step))
    started, first, total = time.process_time(), trainer.step, 0.0
    while trainer.step < arguments.steps:
        total += trainer.train_step(next(some))
        if trainer.step % 50 == 0:
            pace = (time.process_time() - started) / (trainer.step - first)
            print(f"step {trainer.step} loss {total / 50:.4f}, {pace:.2f} CPU s a step", flush=True)
            total = 0.0
        if trainer.step % _SAVE_EVERY == 0:
            trainer.save()
    trainer.save()


if __name__ == "__main__":
    main()
