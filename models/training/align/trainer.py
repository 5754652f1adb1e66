"""What is trained and how a step is made; `train` runs it."""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import distributed
from torch.nn import functional
from transformers import AutoTokenizer

from models.training.align.examples import Clip, ClipMaker
from models.training.align.geometry import aligner_config
from models.training.align.lessons import Lessons
from models.training.align.losses import Batch, Losses
from models.training.align.model import Aligner
from models.training.align.prompts import TIMESTAMP, prompt_ids
from models.training.corpus import SAMPLE_RATE
from models.training.model import LogMel, audio_length
from models.training.prompts import Tokenizer
from models.training.sentences import vocabulary

_PEAK_RATE, _ENCODER_SHARE = 1.0e-3, 1.0
_WARM_UP_STEPS = 100
# Share of the minutes before the encoder is trained too, and the curriculum's longest clips (s).
_ENCODER_WAITS = 0.05
_CURRICULUM = ((0.06, 5.0), (0.12, 9.0), (0.2, 16.0))
_LONGEST = 31.0
_ANY_LENGTH = 0.2  # of the batches, from the beginning
# So many lessons, and how often a step with speech comes between them.
_LESSONS, _LESSONS_BETWEEN, _LESSON_SECONDS = 900, 2, 70.0
_WINDOW = 8 * SAMPLE_RATE


class Trainer:
    """Owns the model, the optimiser and the position in the schedule."""

    def __init__(self, work: Path, start: Path, minutes: float, seed: int = 0) -> None:
        torch.manual_seed(0)
        self._work, self._budget = work, minutes * 60
        self.tokenizer: Tokenizer = AutoTokenizer.from_pretrained(work)
        stamp = self.tokenizer.convert_tokens_to_ids(TIMESTAMP)
        demo = json.loads((start / "config.json").read_text())
        self.config = aligner_config(demo, stamp)
        if seed == 0:
            (work / "config.json").write_text(json.dumps(self.config, indent=2) + "\n")
        self.model = Aligner(self.config, attention="eager")
        self.model.begin_from(start / "model.safetensors")
        self._share_words(stamp)
        thinker = self.config["thinker_config"]
        classes = {word: at + 1 for at, word in enumerate(vocabulary())}
        hidden = thinker["text_config"]["hidden_size"]
        self._losses = Losses(hidden, thinker["classify_num"], classes)
        self._optimizer = torch.optim.AdamW(
            self._groups(), weight_decay=0.01, betas=(0.9, 0.98), fused=True
        )
        self._mel = LogMel()
        self._dice = random.Random(seed)
        self._lessons: Lessons | None = None
        self.step, self.taught, self.spent = 0, 0, 0.0

    def _share_words(self, stamp: int) -> None:
        """Words come without a space before them here, which the recogniser hardly knows."""
        weight = self.model.core.model.language_model.embed_tokens.weight
        with torch.no_grad():
            for word in vocabulary():
                spaced, bare = (self.tokenizer(f).input_ids for f in (f" {word}", word))
                weight[bare[0]] = weight[spaced[0]]
            weight[stamp] = weight[self.tokenizer.convert_tokens_to_ids("<|im_end|>")]

    def _groups(self) -> list[dict[str, object]]:
        encoder = [
            p
            for part in (
                self.model.core.model.audio_tower,
                self.model.core.model.multi_modal_projector,
            )
            for p in part.parameters()
        ]
        known = {id(p) for p in encoder}
        rest = [p for p in self.model.parameters() if id(p) not in known]
        return [
            {"params": encoder, "share": _ENCODER_SHARE},
            {"params": [*rest, *self._losses.parameters()], "share": 1.0},
        ]

    @property
    def done(self) -> float:
        """Share of the training's minutes that are spent."""
        return min(1.0, self.spent / self._budget)

    def resume(self) -> None:
        path = self._work / "checkpoint.pt"
        if path.exists():
            state = torch.load(path, weights_only=True)
            self.model.load_state_dict(state["model"])
            self._losses.load_state_dict(state["losses"])
            self._optimizer.load_state_dict(state["optimizer"])
            self.step, self.taught = state["step"], state["taught"]
            self.spent = state["spent"]

    def save(self) -> None:
        state = {
            "model": self.model.state_dict(),
            "losses": self._losses.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "step": self.step,
            "taught": self.taught,
            "spent": self.spent,
        }
        torch.save(state, self._work / "checkpoint.tmp")
        (self._work / "checkpoint.tmp").replace(self._work / "checkpoint.pt")

    def longest(self) -> float:
        """Curriculum: the longest clip (s) at this point of the training; sometimes any."""
        if self._dice.random() < _ANY_LENGTH:
            return _LONGEST
        return next((longest for until, longest in _CURRICULUM if self.done < until), _LONGEST)

    def _rate(self) -> float:
        warm = min(1.0, (self.step + 1) / _WARM_UP_STEPS)
        return _PEAK_RATE * warm * max(0.01, 0.5 * (1 + math.cos(math.pi * self.done)))

    def train_step(self, made: Iterator[list[Clip]]) -> dict[str, float]:
        """One optimiser step with the next clips, or a lesson; returns the losses by name."""
        started = time.process_time()
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate() * group["share"]
        with torch.autocast("cpu", torch.bfloat16):
            if self.taught < _LESSONS and self.step % _LESSONS_BETWEEN:
                losses = self._lesson()
            else:
                losses = self._speech(next(made))
        self._optimizer.zero_grad(set_to_none=True)
        losses["sum"].backward()
        self._share_gradients(time.process_time() - started)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self._optimizer.step()
        self.step += 1
        return {name: loss.item() for name, loss in losses.items()}

    def _speech(self, clips: list[Clip]) -> dict[str, torch.Tensor]:
        mels = [self._mask(self._mel(torch.from_numpy(clip.samples))) for clip in clips]
        with torch.set_grad_enabled(self.done >= _ENCODER_WAITS):
            audio = self.model.embed_audio(mels)
        batch = self.batch(clips, [audio_length(mel.shape[1]) for mel in mels])
        found = self.model(audio, batch.ids, batch.mask, seen=True)
        return cast(dict[str, torch.Tensor], self._losses(self.model, batch, found))

    def _lesson(self) -> dict[str, torch.Tensor]:
        self.taught += 1
        assert self._lessons is not None, "begin_lessons comes first"
        clips, audio = self._lessons.make(_LESSON_SECONDS)
        batch = self.batch(clips, [len(a) for a in audio])
        hidden = self._lessons.hidden(torch.cat(audio), batch.ids, batch.mask)
        return self._losses.lesson(self.model, batch, hidden)

    def begin_lessons(self, maker: ClipMaker) -> None:
        """Encode the speech that all lessons are made of; its windows are whole."""
        samples = np.concatenate([maker.clip(_LONGEST).samples for _ in range(6)])
        with torch.inference_mode():
            mel = self._mel(torch.from_numpy(samples[: len(samples) // _WINDOW * _WINDOW]))
            audio = self.model.embed_audio([mel])
        self._lessons = Lessons(self.model, audio.clone(), maker.seed)

    def _share_gradients(self, seconds: float) -> None:
        """The mean of all processes' gradients, and of the time that the step took them."""
        have = [p for g in self._optimizer.param_groups for p in g["params"] if p.grad is not None]
        flat = torch.cat([*(p.grad.flatten() for p in have), torch.tensor([seconds])])
        if distributed.is_initialized():
            distributed.all_reduce(flat)
            flat /= distributed.get_world_size()
        for parameter, part in zip(have, flat.split([p.numel() for p in have] + [1]), strict=False):
            parameter.grad = part.view_as(parameter)
        self.spent += flat[-1].item()

    def batch(self, clips: list[Clip], lengths: list[int]) -> Batch:
        rows = [
            torch.tensor(prompt_ids(self.tokenizer, [w.word for w in clip.words], length))
            for clip, length in zip(clips, lengths, strict=True)
        ]
        pad = self.tokenizer.convert_tokens_to_ids("<|endoftext|>")
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad)
        mask = torch.stack(
            [
                functional.pad(torch.ones(len(r), dtype=torch.long), (0, ids.shape[1] - len(r)))
                for r in rows
            ]
        )
        return Batch(clips, lengths, ids, mask)

    def _mask(self, mel: torch.Tensor) -> torch.Tensor:
        """Frequency masking (SpecAugment) with the floor value."""
        for _ in range(2):
            width = self._dice.randint(0, 10)
            at = self._dice.randint(0, 128 - width)
            mel[at : at + width] = mel.min()
        return mel
