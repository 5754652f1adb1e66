"""Train the demo checkpoint on the CPU; resumes from its last checkpoint.

    python -m models.training.train --work build/demo [--languages en,de,es] [--steps 36000]
        [--start models/demo] [--minutes 60]

In addition to the decoder's cross-entropy, there is a CTC loss on the audio embeddings
*through the tied output embedding* (blank = pad token): it moves the audio to where
the decoder can read it. A curriculum increases the lengths up to 30 s. The default number of
steps is per language. With `--start` the training begins with a published checkpoint
(`models.training.beginning`), at a lower learning rate and with all lengths. `--minutes`
limits a sitting, and Ctrl-C ends one at any time; the same command then resumes the
training. Once all steps are done, the file `finished` is in its folder.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import torch
from torch.nn import functional
from transformers import AutoTokenizer

from models.training.augment.mel import masked, warped
from models.training.augment.surroundings import Surroundings
from models.training.beginning import begin_with
from models.training.examples import Example, ExampleMaker
from models.training.geometry import demo_config
from models.training.languages import DEFAULT, chosen, language
from models.training.mixture import Mixture
from models.training.model import DemoModel, LogMel, audio_length
from models.training.prompts import Tokenizer, answer_ids, prompt_ids
from models.training.sentences import vocabulary
from models.training.shards import chosen as chosen_sources
from models.training.sources import speaking
from models.training.sources.card import named_in
from models.training.tokenizer import SPECIAL_TOKENS, write_tokenizer

_PEAK_RATE = 1.5e-3
# Relative to the peak: from weights that cover all languages, and from weights that lack one.
_KNOWN_RATE, _UNKNOWN_RATE = 0.4, 0.7
_WARM_UP_STEPS = 300
_WARPED, _WARPS = 0.5, (0.88, 1.14)  # share of the examples, and how the mel axis is stretched
_BATCH_SECONDS = 40.0
_SAVE_EVERY, _TELL_EVERY = 250, 50
_STEPS = 36_000  # of a language
_WIDEST_MASK = 12  # bins
_IGNORE = -100


class Trainer:
    """Owns the model, the optimiser and the position in the schedule."""

    def __init__(
        self,
        work: Path,
        steps: int,
        languages: Sequence[str] = (DEFAULT,),
        start: Path | None = None,
        sources: Sequence[str] = (),
    ) -> None:
        torch.manual_seed(0)
        self.dice = random.Random(0)
        self._work, self._steps, self._start = work, steps, start
        self._sources = list(sources)
        self._words = vocabulary(languages)
        names = [language(code).name for code in languages]
        write_tokenizer(work, self._words, names=names)
        self.tokenizer: Tokenizer = AutoTokenizer.from_pretrained(work)
        ids = {token: self.tokenizer.convert_tokens_to_ids(token) for token in SPECIAL_TOKENS}
        ids["vocab_size"] = -(-len(self.tokenizer) // 64) * 64
        self.config = demo_config(ids, names)
        (work / "config.json").write_text(json.dumps(self.config, indent=2) + "\n")
        self.model = DemoModel(self.config)
        self._pad = ids["<|endoftext|>"]
        self._mel = LogMel()
        self._optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=_PEAK_RATE, weight_decay=0.01, betas=(0.9, 0.98), fused=True
        )
        self._word_ids, self._word_class = self._ctc_vocabulary()
        self._peak = _PEAK_RATE * (_share_of_peak(start, names) if start else 1)
        can = torch.cpu.get_capabilities()
        self._multiplies_bfloat16 = bool(can.get("avx512_bf16") or can.get("amx_bf16"))
        self.step = 0

    def _ctc_vocabulary(self) -> tuple[torch.Tensor, dict[str, int]]:
        """CTC scores only whole words, each by its mid-sentence token; class 0 is blank."""
        ids = [self.tokenizer(f" {word}").input_ids[0] for word in self._words]
        return torch.tensor([self._pad, *ids]), {w: i + 1 for i, w in enumerate(self._words)}

    def resume(self) -> None:
        """Resume from the last checkpoint, or begin with the weights at `start`.

        Raises ValueError if the checkpoint has other languages or another beginning, and if the
        weights are of a larger network.
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
            self.dice.seed(self.step)
            self._learned_from(state.get("sources", ()))
        elif self._start:
            begin_with(self.model, self.tokenizer, self._start)
            card = self._start / "README.md"
            self._learned_from(named_in(card.read_text()) if card.exists() else ())

    def _learned_from(self, before: Sequence[str]) -> None:
        """Add the sources of earlier sittings: the card lists all sources of the weights."""
        self._sources = list(dict.fromkeys([*before, *self._sources]))

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
        return self._peak * warm * max(0.01, 1.0 - self.step / self._steps)

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
        mels = [self._heard(e) for e in examples]
        lengths = [audio_length(m.shape[1]) for m in mels]
        with self._narrow():
            audio = self.model.embed_audio(mels).float()
        decoder = self._decoder_loss(examples, lengths, audio)
        ctc = self._ctc_loss(examples, lengths, audio)
        weight = max(0.3, 1.0 - self.step / self._steps)
        self._optimizer.zero_grad(set_to_none=True)
        (decoder + weight * ctc).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self._optimizer.step()
        self.step += 1
        return decoder.item(), ctc.item()

    def _narrow(self) -> torch.autocast:
        """Compute products in bfloat16, the published weights' type, if the CPU supports it.

        The trained weights and the losses stay float32.
        """
        return torch.autocast("cpu", torch.bfloat16, enabled=self._multiplies_bfloat16)

    def _heard(self, example: Example) -> torch.Tensor:
        """Change the vocal tract length of half of the examples; mask bands of all."""
        mel: torch.Tensor = self._mel(torch.from_numpy(example.samples))
        if self.dice.random() < _WARPED:
            mel = warped(mel, self.dice.uniform(*_WARPS))
        return masked(mel, self.dice, _WIDEST_MASK)

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
        with self._narrow():
            hidden = self.model(audio, ids, mask)[:, :-1].float()
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


def _share_of_peak(start: Path, names: Sequence[str]) -> float:
    known = json.loads((start / "config.json").read_text())["support_languages"]
    return _KNOWN_RATE if set(names) <= set(known) else _UNKNOWN_RATE


def batch(maker: ExampleMaker, longest: float, dice: random.Random) -> list[Example]:
    """Examples of similar length, together about _BATCH_SECONDS.

    Lengths are uniform, so that long audio is learned as well as short; a quarter
    is log-uniform for the first second of a session.
    """
    target = dice.uniform(0.5, longest)
    if dice.random() < 0.25:
        target = math.exp(dice.uniform(math.log(0.5), math.log(longest)))
    count = max(1, min(24, round(_BATCH_SECONDS / target)))
    return [maker.make(max(0.3, target * dice.uniform(0.8, 1.0))) for _ in range(count)]


@contextmanager
def _asked_to_end() -> Iterator[threading.Event]:
    """Handle Ctrl-C and SIGTERM between steps, so that no progress is lost."""
    asked = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda *_: asked.set()) for number in numbers}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, default=Path("build/demo-corpus"))
    parser.add_argument("--languages", type=chosen, default=(DEFAULT,), metavar="en,de,es")
    parser.add_argument("--sources", type=chosen_sources, metavar="flite,people",
                        help="default: all that speak these languages; "
                        "'': espeak-ng's set alone")  # fmt: skip
    parser.add_argument("--steps", type=int, help=f"default: {_STEPS} of each language")
    parser.add_argument("--start", type=Path, help="a checkpoint to begin with")
    parser.add_argument("--minutes", type=float, default=math.inf, help="of this sitting")
    arguments = parser.parse_args()
    languages = arguments.languages
    steps = arguments.steps or _STEPS * len(languages)
    arguments.work.mkdir(parents=True, exist_ok=True)
    sources = speaking(languages) if arguments.sources is None else arguments.sources
    trainer = Trainer(arguments.work, steps, languages, arguments.start, sources)
    trainer.resume()
    corpus = Mixture(arguments.corpus, sources, languages)
    finished = arguments.work / "finished"
    finished.unlink(missing_ok=True)
    with _asked_to_end() as asked:
        sitting(trainer, corpus, steps, arguments.minutes, asked)
    trainer.save()
    if trainer.step >= steps:
        finished.touch()
    else:
        print(f"step {trainer.step} of {steps}: the same command continues from here")


def _made_ahead(trainer: Trainer, maker: ExampleMaker) -> Iterator[list[Example]]:
    """Make each batch while the network trains on the previous one."""
    dice = random.Random(trainer.step)
    with ThreadPoolExecutor(1) as ahead:
        following = ahead.submit(batch, maker, trainer.longest(), dice)
        while True:
            examples = following.result()
            following = ahead.submit(batch, maker, trainer.longest(), dice)
            yield examples


def sitting(
    trainer: Trainer, corpus: Mixture, steps: int, minutes: float, asked: threading.Event
) -> None:
    """Train until `steps` are done, the minutes are over or `asked` is set."""
    maker = ExampleMaker(corpus, trainer.step, Surroundings(trainer.step))
    started, first = time.monotonic(), trainer.step
    told, sums = first, [0.0, 0.0]
    with closing(_made_ahead(trainer, maker)) as batches:
        while trainer.step < steps and time.monotonic() - started < minutes * 60:
            if asked.is_set():
                break
            losses = trainer.train_step(next(batches))
            sums = [s + x for s, x in zip(sums, losses, strict=True)]
            if trainer.step % _TELL_EVERY == 0:
                pace = (time.monotonic() - started) / (trainer.step - first)
                left = (steps - trainer.step) * pace / 3600
                decoder, ctc = (total / (trainer.step - told) for total in sums)
                print(
                    f"step {trainer.step} decoder {decoder:.3f} ctc {ctc:.3f} {pace:.2f} s/step "
                    f"longest {trainer.longest():.0f} s, {left:.1f} h left",
                    flush=True,
                )
                told, sums = trainer.step, [0.0, 0.0]
            if trainer.step % _SAVE_EVERY == 0:
                trainer.save()


if __name__ == "__main__":
    main()
