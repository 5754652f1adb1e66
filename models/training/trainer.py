"""The demo recogniser's model, its optimiser and its place in the schedule.

Besides the decoder's cross-entropy there is a CTC loss on the audio embeddings
*through the tied output embedding* (blank = pad token): it puts the audio where
the decoder can read it. Lengths grow with a curriculum up to 30 s.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import torch
from torch.nn import functional
from transformers import AutoTokenizer

from models.training.augment.mel import warped
from models.training.examples import Example
from models.training.geometry import demo_config
from models.training.languages import DEFAULT, language
from models.training.model import DemoModel, LogMel, audio_length
from models.training.prompts import Tokenizer, answer_ids, prompt_ids
from models.training.reference import Reference
from models.training.sentences import vocabulary
from models.training.together import share_gradients
from models.training.tokenizer import SPECIAL_TOKENS, write_tokenizer

_PEAK_RATE = 1.5e-3
_STARTED_RATE = 0.4  # of the peak, from weights that know the words already
_WARM_UP_STEPS = 300
_WARPED, _WARPS = 0.5, (0.88, 1.14)  # share of the examples, and how the mel axis is stretched
_IGNORE = -100


def prepare(work: Path, languages: Sequence[str] = (DEFAULT,)) -> None:
    """Write the tokenizer and the configuration of a checkpoint of these languages into a folder.

    The trainers of all processes read them.
    """
    names = [language(code).name for code in languages]
    write_tokenizer(work, vocabulary(languages), names=names)
    tokenizer = AutoTokenizer.from_pretrained(work)
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in SPECIAL_TOKENS}
    ids["vocab_size"] = -(-len(tokenizer) // 64) * 64
    config = demo_config(ids, names)
    (work / "config.json").write_text(json.dumps(config, indent=2) + "\n")


class Trainer:
    """Owns the model, the optimiser and the position in the schedule."""

    def __init__(
        self,
        work: Path,
        steps: int,
        languages: Sequence[str] = (DEFAULT,),
        start: Path | None = None,
        sources: Sequence[str] = (),
        seed: int = 0,
    ) -> None:
        """`seed` is of what this process hears otherwise than others; the weights are theirs."""
        torch.manual_seed(0)
        self._seed, self._dice = seed, random.Random(seed)
        self._work, self._steps, self._start = work, steps, start
        self._sources = list(sources)
        self._words = vocabulary(languages)
        self.tokenizer: Tokenizer = AutoTokenizer.from_pretrained(work)
        self.config = json.loads((work / "config.json").read_text())
        self.model = DemoModel(self.config)
        self._pad: int = self.tokenizer.convert_tokens_to_ids("<|endoftext|>")
        self._mel = LogMel()
        self._optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=_PEAK_RATE, weight_decay=0.01, betas=(0.9, 0.98), fused=True
        )
        self._word_ids, self._word_class = self._ctc_vocabulary()
        self.step = 0

    def _ctc_vocabulary(self) -> tuple[torch.Tensor, dict[str, int]]:
        """CTC scores only whole words, each by its mid-sentence token; class 0 is blank."""
        ids = [self.tokenizer(f" {word}").input_ids[0] for word in self._words]
        return torch.tensor([self._pad, *ids]), {w: i + 1 for i, w in enumerate(self._words)}

    def resume(self) -> None:
        """Go on from the last checkpoint, or begin with the weights at `start`.

        Raises ValueError if the checkpoint has other languages or another beginning, and if the
        weights are of other words.
        """
        path = self._work / "checkpoint.pt"
        if path.exists():
            state = torch.load(path, weights_only=True)
            before = state.get("languages", self.config["support_languages"])
            if before != self.config["support_languages"]:
                raise ValueError(f"{path} is of {', '.join(before)}: choose another --work")
            if (began := state.get("start")) != self._beginning():
                raise ValueError(f"{path} began with {began or 'nothing'}: choose another --work")
            self.model.load_state_dict(state["model"])
            self._optimizer.load_state_dict(state["optimizer"])
            self.step = state["step"]
            self._dice.seed(f"{self._seed} {self.step}")
            # It has learned from those of every sitting.
            self._sources = list(dict.fromkeys([*state.get("sources", ()), *self._sources]))
        elif self._start:
            words = "vocab.json"
            if (self._start / words).read_bytes() != (self._work / words).read_bytes():
                raise ValueError(f"{self._start} knows other words than are to be trained")
            self.model.load_state_dict(Reference(self._start).model.state_dict())

    def _beginning(self) -> str | None:
        return self._start.name if self._start else None

    def save(self) -> None:
        state = {
            "model": self.model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "step": self.step,
            "languages": self.config["support_languages"],
            "start": self._beginning(),
            "sources": self._sources,
        }
        torch.save(state, self._work / "checkpoint.tmp")
        (self._work / "checkpoint.tmp").replace(self._work / "checkpoint.pt")

    def _rate(self) -> float:
        warm = min(1.0, (self.step + 1) / _WARM_UP_STEPS)
        peak = _PEAK_RATE * (_STARTED_RATE if self._start else 1)
        return peak * warm * max(0.01, 1.0 - self.step / self._steps)

    def longest(self) -> float:
        """Curriculum: the longest example, in seconds, at this point of the training."""
        done = 1.0 if self._start else self.step / self._steps
        for until, seconds in ((0.05, 2.5), (0.11, 5.0), (0.17, 9.0), (0.24, 16.0)):
            if done < until:
                return seconds
        return 30.0

    def train_step(self, examples: list[Example]) -> tuple[float, float]:
        """One optimiser step; returns (cross-entropy, CTC loss)."""
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate()
        mels = [self._mask(self._warp(self._mel(torch.from_numpy(e.samples)))) for e in examples]
        lengths = [audio_length(m.shape[1]) for m in mels]
        audio = self.model.embed_audio(mels)
        decoder = self._decoder_loss(examples, lengths, audio)
        ctc = self._ctc_loss(examples, lengths, audio)
        weight = max(0.3, 1.0 - self.step / self._steps)
        self._optimizer.zero_grad(set_to_none=True)
        (decoder + weight * ctc).backward()
        share_gradients(self.model.parameters())
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self._optimizer.step()
        self.step += 1
        return decoder.item(), ctc.item()

    def _warp(self, mel: torch.Tensor) -> torch.Tensor:
        """Half of the speakers with a longer or shorter vocal tract."""
        return warped(mel, self._dice.uniform(*_WARPS)) if self._dice.random() < _WARPED else mel

    def _mask(self, mel: torch.Tensor) -> torch.Tensor:
        """Frequency masking (SpecAugment) with the floor value."""
        for _ in range(2):
            width = self._dice.randint(0, 12)
            at = self._dice.randint(0, 128 - width)
            mel[at : at + width] = mel.min()
        return mel

    def _decoder_loss(
        self, examples: list[Example], lengths: list[int], audio: torch.Tensor
    ) -> torch.Tensor:
        rows, labels = [], []
        for example, length in zip(examples, lengths, strict=True):
            prompt = prompt_ids(self.tokenizer, example.context, length)
            given, learned = answer_ids(
                self.tokenizer, example.words, example.forced, example.language
            )
            rows.append(prompt + given + learned)
            labels.append([_IGNORE] * len(prompt + given) + learned)
        width = max(map(len, rows))
        ids = torch.tensor([r + [self._pad] * (width - len(r)) for r in rows])
        target = torch.tensor([r + [_IGNORE] * (width - len(r)) for r in labels])[:, 1:]
        mask = torch.tensor([[1] * len(r) + [0] * (width - len(r)) for r in rows])
        hidden = self.model(audio, ids, mask)[:, :-1]
        wanted = target != _IGNORE
        return functional.cross_entropy(self.model.text.lm_head(hidden[wanted]), target[wanted])

    def _ctc_loss(
        self, examples: list[Example], lengths: list[int], audio: torch.Tensor
    ) -> torch.Tensor:
        embedding = self.model.text.model.embed_tokens.weight[self._word_ids]
        scores = (audio @ embedding.T).log_softmax(-1)
        padded = torch.nn.utils.rnn.pad_sequence(list(scores.split(lengths)))
        targets = [[self._word_class[w] for w in e.words] for e in examples]
        flat = torch.tensor([c for t in targets for c in t], dtype=torch.long)
        return functional.ctc_loss(
            padded,
            flat,
            torch.tensor(lengths),
            torch.tensor([len(t) for t in targets]),
            zero_infinity=True,
        )
