"""Train the demo aligner on the CPU, for so many minutes of it; resumes from its last checkpoint.

    python -m models.training.align.train --work build/aligner --minutes 75 --processes 2

It begins with the demo recogniser's encoder and text layers, which know the words, and learns
when they are said. Minutes are those of a process's work, so a busy machine takes longer and not
less care; they are kept with the checkpoint, and the schedule (learning rate, longest clip) goes
on where it was. While the file named by --pause exists it waits.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed, multiprocessing
from torch.nn import functional
from transformers import AutoTokenizer

from models.training.align.examples import Clip, ClipMaker, batches
from models.training.align.geometry import aligner_config
from models.training.align.losses import Batch, Losses
from models.training.align.model import Aligner
from models.training.align.probe import probe
from models.training.align.prompts import TIMESTAMP, prompt_ids
from models.training.corpus import Corpus
from models.training.model import LogMel, audio_length
from models.training.prompts import Tokenizer
from models.training.sentences import vocabulary
from models.training.tokenizer import SPECIAL_TOKENS, write_tokenizer

_PEAK_RATE, _ENCODER_SHARE = 1.0e-3, 0.3
_WARM_UP_STEPS = 100
# Share of the minutes before the encoder is trained too, and the curriculum's longest clips (s).
_ENCODER_WAITS = 0.12
_CURRICULUM = ((0.06, 5.0), (0.12, 9.0), (0.2, 16.0))
_LONGEST = 31.0
_ANY_LENGTH = 0.2
_LONGEST_PAUSE = timedelta(hours=6)
_SAVE_EVERY, _PROBE_EVERY, _SHOW_EVERY = 100, 300, 25


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
        self.step, self.spent = 0, 0.0

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
            self.step, self.spent = state["step"], state["spent"]

    def save(self) -> None:
        state = {
            "model": self.model.state_dict(),
            "losses": self._losses.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "step": self.step,
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
        """One optimiser step with the next clips; returns the losses by name."""
        started = time.process_time()
        clips = next(made)
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate() * group["share"]
        mels = [self._mask(self._mel(torch.from_numpy(clip.samples))) for clip in clips]
        with torch.autocast("cpu", torch.bfloat16):
            with torch.set_grad_enabled(self.done >= _ENCODER_WAITS):
                audio = self.model.embed_audio(mels)
            batch = self.batch(clips, [audio_length(mel.shape[1]) for mel in mels])
            found = self.model(audio, batch.ids, batch.mask, seen=True)
            losses: dict[str, torch.Tensor] = self._losses(self.model, batch, found)
        self._optimizer.zero_grad(set_to_none=True)
        losses["sum"].backward()
        self._share_gradients(time.process_time() - started)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self._optimizer.step()
        self.step += 1
        return {name: loss.item() for name, loss in losses.items()}

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


@dataclass(frozen=True)
class Run:
    """What the command line says; every process gets it."""

    work: Path
    start: Path
    corpus: Path
    minutes: float
    batch_seconds: float
    processes: int
    pause: Path | None


def _process(rank: int, run: Run) -> None:
    """One of the processes that train together, each on clips of its own with one thread."""
    torch.set_num_threads(1)
    meeting = run.work.absolute() / "meeting"
    distributed.init_process_group(
        "gloo",
        init_method=meeting.as_uri(),
        rank=rank,
        world_size=run.processes,
        timeout=_LONGEST_PAUSE,
    )
    trainer = Trainer(run.work, run.start, run.minutes, seed=rank)
    trainer.resume()
    seed = trainer.step * run.processes + rank
    maker = ClipMaker(Corpus(run.corpus, "train", loaded=True), seed=seed)
    clips = _clips(trainer, maker, run.batch_seconds / run.processes)
    judged = probe(run.corpus, trainer.tokenizer) if rank == 0 else None
    sums: dict[str, float] = defaultdict(float)
    while trainer.done < 1.0:
        while run.pause and run.pause.exists():
            time.sleep(5)
        for name, loss in trainer.train_step(clips).items():
            sums[name] += loss / _SHOW_EVERY
        if judged is not None:
            _tell(trainer, sums, judged)
    if judged is not None:
        trainer.save()
    distributed.destroy_process_group()


def _tell(trainer: Trainer, sums: dict[str, float], judged: Callable[[Aligner], str]) -> None:
    """Losses, errors and checkpoints, each so often."""
    if trainer.step % _SHOW_EVERY == 0:
        shown = " ".join(f"{name} {loss:.2f}" for name, loss in sums.items())
        print(f"{trainer.step} {trainer.spent / 60:.1f} min {shown}", flush=True)
        sums.clear()
    if trainer.step % _SAVE_EVERY == 0:
        trainer.save()
    if trainer.step % _PROBE_EVERY == 0:
        print(f"{trainer.step} errors (ms) {judged(trainer.model)}", flush=True)


def _clips(trainer: Trainer, maker: ClipMaker, seconds: float) -> Iterator[list[Clip]]:
    dice = random.Random(maker.seed)
    while True:
        if clips := batches(maker, dice, trainer.longest(), seconds):
            yield clips


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--start", type=Path, default=Path("models/demo"))
    parser.add_argument("--corpus", type=Path, default=Path("build/demo-corpus"))
    parser.add_argument("--minutes", type=float, default=75.0)
    parser.add_argument("--batch-seconds", type=float, default=60.0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--pause", type=Path, help="wait while this file exists")
    run = Run(**vars(parser.parse_args()))
    run.work.mkdir(parents=True, exist_ok=True)
    write_tokenizer(run.work, special=(*SPECIAL_TOKENS, TIMESTAMP))
    (run.work / "meeting").unlink(missing_ok=True)
    multiprocessing.spawn(_process, (run,), nprocs=run.processes)


if __name__ == "__main__":
    main()
