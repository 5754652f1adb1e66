"""The trainer: models, schedule and training step. `train` runs it."""

from __future__ import annotations

import json
import math
import random
import time
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import distributed
from torch.nn import functional
from transformers import AutoTokenizer

from models.training.align.examples import SHORTEST, Clip, ClipMaker, batches
from models.training.align.geometry import aligner_config
from models.training.align.hearing import Hearing
from models.training.align.lessons import Lessons
from models.training.align.losses import Batch, Losses
from models.training.align.model import Aligner
from models.training.align.prompts import TIMESTAMP, prompt_ids
from models.training.align.shelf import Heard, Shelf
from models.training.augment.mel import masked
from models.training.corpus import SAMPLE_RATE
from models.training.model import LogMel, audio_length
from models.training.prompts import Tokenizer
from models.training.sentences import vocabulary

_PEAK_RATE = 1.0e-3
_WARM_UP_STEPS = 100
# The longest clips (s) until this share of the text model's minutes.
_CURRICULUM = ((0.06, 5.0), (0.12, 9.0), (0.2, 16.0))
_LONGEST = 31.0
_ANY_LENGTH = 0.2  # of the batches, from the beginning
# bfloat16 is twice as fast where the CPU supports it, and a seventh as fast where it is emulated.
_HAS_BFLOAT16 = bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
# When starting from an aligner: mostly long clips, a lower rate, and at first only auxiliary heads.
# These are not published; untrained, their gradients would harm the layers below.
_LONG_FROM, _STARTED_RATE, _HEADS_ALONE_STEPS = 14.0, 0.4, 100
# Number of lessons, steps per lesson, and length of a lesson (s).
_LESSONS, _LESSON_EVERY, _LESSON_SECONDS = 900, 3, 70.0
# Number of uses of a clip once the encoder is frozen.
_REUSE = 4
_WIDEST_MASK = 10  # bins
_WINDOW = 8 * SAMPLE_RATE
_EMBEDDINGS_A_SECOND = 13


class Trainer:
    """Owns the model, the optimiser and the position in the schedule.

    The encoder learns alone for the first `hearing` of the `minutes`, then the text model. If
    `start` is an aligner, only its text model learns, with long clips.
    """

    def __init__(
        self, work: Path, start: Path, minutes: float, hearing: float, seed: int = 0
    ) -> None:
        torch.manual_seed(0)
        self._start = start.name
        begun = json.loads((start / "config.json").read_text())
        self._goes_on = "timestamp_token_id" in begun
        hearing = 0.0 if self._goes_on else hearing
        self._work, self._budget, self._hears_until = work, minutes * 60, hearing * 60
        self.tokenizer: Tokenizer = AutoTokenizer.from_pretrained(work)
        stamp = self.tokenizer.convert_tokens_to_ids(TIMESTAMP)
        self.config = begun if self._goes_on else aligner_config(begun, stamp)
        if seed == 0:
            (work / "config.json").write_text(json.dumps(self.config, indent=2) + "\n")
        self.model = Aligner(self.config, attention="eager")
        if self._goes_on:
            self.model.load_published(start / "model.safetensors")
        else:
            self.model.begin_from(start / "model.safetensors")
            self._share_words(stamp)
        self._keep_convolutions()
        thinker = self.config["thinker_config"]
        classes = {word: at + 1 for at, word in enumerate(vocabulary())}
        hidden = thinker["text_config"]["hidden_size"]
        self._losses = Losses(hidden, thinker["classify_num"], classes)
        self._hearing = Hearing(hidden, classes)
        self._optimizer = torch.optim.AdamW(
            self._learned(), lr=_PEAK_RATE, weight_decay=0.01, betas=(0.9, 0.98), fused=True
        )
        self._mel = LogMel()
        self._dice = random.Random(seed)
        self._lessons: Lessons | None = None
        self._shelf: Shelf | None = None
        self.step, self.heard, self.taught, self.spent = 0, 0, 0, 0.0

    def _share_words(self, stamp: int) -> None:
        """Initialise words without a leading space, which the recogniser rarely saw."""
        weight = self.model.core.model.language_model.embed_tokens.weight
        with torch.no_grad():
            for word in vocabulary():
                spaced, bare = (self.tokenizer(f).input_ids for f in (f" {word}", word))
                weight[bare[0]] = weight[spaced[0]]
            weight[stamp] = weight[self.tokenizer.convert_tokens_to_ids("<|im_end|>")]

    def _keep_convolutions(self) -> None:
        """Freeze the recogniser's: training them costs a third of an encoder's step."""
        tower = self.model.core.model.audio_tower
        for convolution in (tower.conv2d1, tower.conv2d2, tower.conv2d3):
            convolution.requires_grad_(False)

    def _learned(self) -> list[torch.nn.Parameter]:
        parts = (self.model, self._losses, self._hearing)
        every = (parameter for part in parts for parameter in part.parameters())
        return [parameter for parameter in every if parameter.requires_grad]

    @property
    def over(self) -> bool:
        return self.spent >= self._budget

    @property
    def hears(self) -> bool:
        """Whether the encoder is the part that learns."""
        return self.spent < self._hears_until

    @property
    def done(self) -> float:
        """Share of the current phase's minutes that is spent."""
        if self.hears:
            return self.spent / self._hears_until
        return min(1.0, (self.spent - self._hears_until) / (self._budget - self._hears_until))

    def resume(self) -> None:
        """Resume from the last checkpoint. Raises ValueError if it began with other weights."""
        path = self._work / "checkpoint.pt"
        if path.exists():
            state = torch.load(path, weights_only=True)
            if (began := state.get("start", "demo")) != self._start:
                raise ValueError(f"{path} began with {began}: choose another --work")
            self.model.load_state_dict(state["model"])
            self._losses.load_state_dict(state["losses"])
            self._hearing.load_state_dict(state["hearing"])
            self._optimizer.load_state_dict(state["optimizer"])
            self.step, self.heard, self.taught = state["step"], state["heard"], state["taught"]
            self.spent = state["spent"]

    def save(self) -> None:
        state = {
            "model": self.model.state_dict(),
            "losses": self._losses.state_dict(),
            "hearing": self._hearing.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "step": self.step,
            "heard": self.heard,
            "taught": self.taught,
            "spent": self.spent,
            "start": self._start,
        }
        torch.save(state, self._work / "checkpoint.tmp")
        (self._work / "checkpoint.tmp").replace(self._work / "checkpoint.pt")

    def longest(self) -> float:
        """Curriculum: the longest clip (s) at this point of the training; sometimes any."""
        if self._goes_on or self._dice.random() < _ANY_LENGTH:
            return _LONGEST
        return next((longest for until, longest in _CURRICULUM if self.done < until), _LONGEST)

    def _shortest(self) -> float:
        """The shortest clip (s) of the next batch."""
        short = not self._goes_on or self._dice.random() < _ANY_LENGTH
        return SHORTEST if short else _LONG_FROM

    def _rate(self) -> float:
        since = self.heard if self.hears else self.step - self.heard
        warm = min(1.0, (since + 1) / _WARM_UP_STEPS)
        peak = _PEAK_RATE * (_STARTED_RATE if self._goes_on else 1)
        return peak * warm * max(0.02, 0.5 * (1 + math.cos(math.pi * self.done)))

    def train_step(self, maker: ClipMaker, seconds: float) -> dict[str, float]:
        """One optimiser step with about `seconds` of speech, or a lesson; the losses by name."""
        started = time.process_time()
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate()
        with torch.autocast("cpu", torch.bfloat16, enabled=_HAS_BFLOAT16):
            losses = self._hear(maker, seconds) if self.hears else self._read(maker, seconds)
        self._optimizer.zero_grad(set_to_none=True)
        losses["sum"].backward()
        self._share_gradients(time.process_time() - started)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self._optimizer.step()
        self.step += 1
        return {name: loss.item() for name, loss in losses.items()}

    def _hear(self, maker: ClipMaker, seconds: float) -> dict[str, torch.Tensor]:
        """The encoder's step. Its windows are independent, so clips are long."""
        self.heard += 1
        clips = [maker.clip(_LONGEST) for _ in range(max(1, round(seconds / _LONGEST)))]
        mels = [
            masked(self._mel(torch.from_numpy(clip.samples)), self._dice, _WIDEST_MASK)
            for clip in clips
        ]
        lengths = [audio_length(mel.shape[1]) for mel in mels]
        return cast(
            dict[str, torch.Tensor], self._hearing(clips, lengths, self.model.embed_audio(mels))
        )

    def _read(self, maker: ClipMaker, seconds: float) -> dict[str, torch.Tensor]:
        """The text model's step, with a frozen encoder."""
        if self._lessons is None or self._shelf is None:
            self._begin_reading(maker, seconds)
        assert self._lessons is not None and self._shelf is not None
        if not self._goes_on and self.taught < _LESSONS and self.step % _LESSON_EVERY == 0:
            return self._lesson(self._lessons)
        lengths = self._shortest(), self.longest()
        some = self._shelf.take(lengths, seconds, _EMBEDDINGS_A_SECOND)
        batch = self.batch([heard.clip for heard in some], [len(heard.audio) for heard in some])
        audio = torch.cat([heard.audio for heard in some])
        found = self.model(audio, batch.ids, batch.mask, seen=True)
        heads_alone = self._goes_on and self.step < _HEADS_ALONE_STEPS
        losses = self._losses(self.model, batch, found, heads_alone=heads_alone)
        return cast(dict[str, torch.Tensor], losses)

    def _heard(self, clips: list[Clip]) -> list[Heard]:
        mels = [self._mel(torch.from_numpy(clip.samples)) for clip in clips]
        lengths = [audio_length(mel.shape[1]) for mel in mels]
        with torch.no_grad():
            audio = self.model.embed_audio(mels).split(lengths)
        nothing = np.zeros(0, np.float32)
        return [
            Heard(replace(clip, samples=nothing), some.bfloat16())
            for clip, some in zip(clips, audio, strict=True)
        ]

    def _lesson(self, lessons: Lessons) -> dict[str, torch.Tensor]:
        self.taught += 1
        clips, audio = lessons.make(_LESSON_SECONDS)
        batch = self.batch(clips, [len(a) for a in audio])
        hidden = lessons.hidden(torch.cat(audio), batch.ids, batch.mask)
        return self._losses.lesson(self.model, batch, hidden)

    def _begin_reading(self, maker: ClipMaker, seconds: float) -> None:
        """Encode the speech for all lessons, in whole windows."""
        samples = np.concatenate([maker.clip(_LONGEST).samples for _ in range(6)])
        with torch.no_grad():
            mel = self._mel(torch.from_numpy(samples[: len(samples) // _WINDOW * _WINDOW]))
            audio = self.model.embed_audio([mel])
        self._lessons = Lessons(self.model, audio, maker.seed)

        def make(lengths: tuple[float, float]) -> list[Heard]:
            while not (clips := batches(maker, self._dice, lengths, seconds)):
                pass
            return self._heard(clips)

        self._shelf = Shelf(make, self._dice, _REUSE)

    def _share_gradients(self, seconds: float) -> None:
        """Average the gradients, and the time of the step, over all processes."""
        have = [parameter for parameter in self._learned() if parameter.grad is not None]
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
