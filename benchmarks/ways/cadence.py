"""Trade-offs of chunk and rollback: latency of words, their stability, and cost.

    python -m benchmarks.ways.cadence [--recordings 4] [--write]

The same speech is segmented as in the server; each segment is decoded at every grid point and once
more at its end, with the server's own commit rules. Times are positions in the audio, without the
time of decodes, so that no figure depends on the machine. `--write` puts the tables into
RESULTS.md, from which `python -m benchmarks.tuning` draws.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

from auricle.audio.pcm import to_float
from auricle.audio.voice_activity import VoiceActivitySequence
from auricle.config.settings import FrontendSettings, ProcessorSettings
from auricle.frontend.recordings.parts import RecordingPart
from auricle.processor.session.stability import (
    CommitRules,
    Stability,
    Tokens,
    stable_text,
)
from benchmarks.harness import Benchmark, Run, main
from benchmarks.markdown import replace_between, table
from benchmarks.prepared import ROOT, corpus
from benchmarks.speech import Recording, Word, spoken
from benchmarks.ways.lengths import parts, speech
from benchmarks.words import Errors, committed_at, errors, matches, rate, spoken_in
from models.training.corpus import SAMPLE_RATE
from models.training.reference import Reference

CHUNKS_MS = (160, 320, 640, 1280, 2560)
ROLLBACKS = (2, 3, 5, 8, 12)
SETTLED_SECONDS = (0.6, 1.2, 2.4)
HELD_WORDS = (0, 1, 2, 3)
_PAUSE_AFTER = 3.0  # as in configs/demo.yaml
_SECONDS, _PAUSES = 60.0, (0.05, 1.0)
_WINDOW_SECONDS = 8.0
_BROKEN_CHARACTER = "\ufffd"
_CHUNK_COLUMNS = (
    "`chunk_ms`",
    "decodes per s",
    "audio encoded, s per s",
    "tokens written per s",
    "shown, s after",
    "committed, s after",
    "95%",
    "changed, of 100 words",
    "word errors",
)
_ROLLBACK_COLUMNS = (
    "`rollback_tokens`",
    "`settled_seconds`",
    "committed, s after",
    "95%",
    "not in the whole segment's text",
    "word errors",
)
_HELD_COLUMNS = ("`held_words`", "shown, s after", "95%", "changed, of 100 words")


@dataclass(frozen=True)
class Segment:
    """`words` are its spoken words, with times from its beginning (s)."""

    samples: np.ndarray
    words: tuple[Word, ...]


@dataclass(frozen=True)
class Step:
    """The text after a decode at `offset` (samples): committed text, and all of it."""

    offset: int
    committed: str
    text: str


class Hearing:
    """Decodes one segment at any offset, each only once."""

    def __init__(self, reference: Reference, segment: Segment, settings: ProcessorSettings) -> None:
        self.segment = segment
        self._reference, self._settings = reference, settings
        self._audio: dict[int, torch.Tensor] = {}
        self._known: dict[int, list[tuple[int, Tokens]]] = {}

    def tokens(self, offset: int, prefix: Tokens) -> Tokens:
        """Return all tokens of the answer to the first `offset` samples, `prefix` first."""
        for forced, answer in self._known.setdefault(offset, []):
            # A greedy decode continues in the same way from any prefix of its answer.
            if forced <= len(prefix) and answer[: len(prefix)] == prefix:
                return answer
        if offset not in self._audio:
            self._audio[offset] = self._reference.embeddings(self.segment.samples[:offset])
        seconds, settings = offset / SAMPLE_RATE, self._settings
        most = settings.min_new_tokens + int(settings.max_tokens_per_second * seconds)
        found = self._reference.answer(self._audio[offset], prefix=prefix, max_tokens=most)
        self._known[offset].append((len(prefix), prefix + found))
        return prefix + found

    def steps(self, chunk: int, rules: CommitRules) -> tuple[list[Step], int]:
        """Return the text at each grid point and at the end, and the number of generated tokens."""
        state, shown, written, end = Stability(), list[Step](), 0, len(self.segment.samples)
        for offset in [*range(chunk, end, chunk), end]:
            answer = self.tokens(offset, state.committed)
            generated = answer[len(state.committed) :]
            written += len(generated)
            state = state.after(generated, offset, rules=rules, ends_whole=self._whole)
            committed = answer if offset == end else state.committed
            shown.append(Step(offset, self.text(committed), self.text(answer)))
        return shown, written

    def text(self, tokens: Tokens) -> str:
        """Return the words of an answer."""
        return self._reference.text(tokens)

    def _whole(self, tokens: Tokens) -> bool:
        return not self.text(tokens).endswith(_BROKEN_CHARACTER)


@dataclass
class Sums:
    """Over all segments; lags in seconds, of words that are right."""

    seconds: float = 0.0
    decodes: int = 0
    tokens: int = 0
    encoded: float = 0.0
    shown: list[float] = field(default_factory=list)
    committed: list[float] = field(default_factory=list)
    changed: int = 0
    unsupported: int = 0
    words: int = 0
    errors: list[Errors] = field(default_factory=list)

    def add(self, hearing: Hearing, chunk: int, rules: CommitRules, held: int) -> None:
        """Add one segment, with the setting `held_words`."""
        steps, written = hearing.steps(chunk, rules)
        final, end = steps[-1].text, steps[-1].offset / SAMPLE_RATE
        spoken_words = hearing.segment.words
        self.seconds += end
        self.decodes += len(steps)
        self.tokens += written
        self.encoded += sum(encoded_seconds(step.offset) for step in steps)
        before = steps[:-1]
        partials = [
            stable_text(s.text, s.committed, held, "English", early=rules.early(number))
            for number, s in enumerate(before, 1)
        ]
        times = [s.offset / SAMPLE_RATE for s in before]
        shown = committed_at(list(zip(times, partials, strict=True)), final, end)
        kept = committed_at([(s.offset / SAMPLE_RATE, s.committed) for s in before], final, end)
        for mine, theirs in matches([word.text for word in spoken_words], final.split()):
            self.shown.append(shown[theirs] - spoken_words[mine].end)
            self.committed.append(kept[theirs] - spoken_words[mine].end)
        self.changed += changed([*partials, final])
        whole = hearing.tokens(steps[-1].offset, ())
        heard = final.split()
        self.words += len(heard)
        self.unsupported += len(heard) - len(matches(hearing.text(whole).split(), heard))
        self.errors.append(errors(" ".join(word.text for word in spoken_words), final))


def encoded_seconds(offset: int) -> float:
    """Return the audio (s) that a decode at `offset` samples encodes: the growing window."""
    rest = offset / SAMPLE_RATE % _WINDOW_SECONDS
    return rest or _WINDOW_SECONDS


def changed(texts: Sequence[str]) -> int:
    """Count words that are not in the next text at the same place."""
    count = 0
    for before, after in pairwise(texts):
        old, new = before.split(), after.split()
        same = 0
        while same < min(len(old), len(new)) and old[same] == new[same]:
            same += 1
        count += len(old) - same
    return count


def segments(recording: Recording, detector: VoiceActivitySequence) -> Iterator[Segment]:
    """Yield the segments of a recording, as in the server."""
    for part in parts(speech(detector, recording), _PAUSE_AFTER):
        yield Segment(_samples(part), tuple(_said(recording, part)))


def _samples(part: RecordingPart) -> np.ndarray:
    return to_float(np.frombuffer(part.pcm, "<i2"))


def _said(recording: Recording, part: RecordingPart) -> Iterator[Word]:
    start = part.start / SAMPLE_RATE
    for word in spoken_in(recording.words, start, part.end / SAMPLE_RATE):
        yield Word(word.text, word.start - start, word.end - start)


def rules(settings: ProcessorSettings, rollback: int, settled_seconds: float) -> CommitRules:
    """Return the rules that the processor derives from its settings."""
    return CommitRules(
        rollback_tokens=rollback,
        open_tokens=min(settings.open_tokens, rollback),
        settled_samples=int(settled_seconds * SAMPLE_RATE),
        unfixed_decodes=settings.unfixed_chunks,
    )


def _summed(hearings: Sequence[Hearing], chunk_ms: int, rules_: CommitRules, held: int = 0) -> Sums:
    sums = Sums()
    for hearing in hearings:
        sums.add(hearing, chunk_ms * SAMPLE_RATE // 1000, rules_, held)
    return sums


def chunk_rows(hearings: Sequence[Hearing], settings: ProcessorSettings) -> Iterator[list[str]]:
    """Yield a row for each chunk, with the default rules."""
    usual = rules(settings, settings.rollback_tokens, settings.settled_seconds)
    for chunk_ms in CHUNKS_MS:
        sums = _summed(hearings, chunk_ms, usual)
        yield [
            str(chunk_ms),
            f"{sums.decodes / sums.seconds:.2f}",
            f"{sums.encoded / sums.seconds:.2f}",
            f"{sums.tokens / sums.seconds:.1f}",
            f"{np.median(sums.shown):.2f}",
            f"{np.median(sums.committed):.2f}",
            f"{np.percentile(sums.committed, 95):.2f}",
            f"{100 * sums.changed / sums.words:.1f}",
            f"{rate(sums.errors):.2%}",
        ]


def rollback_rows(hearings: Sequence[Hearing], settings: ProcessorSettings) -> Iterator[list[str]]:
    """Yield a row for each `rollback_tokens` and `settled_seconds`, with the default chunk."""
    chunk_ms = FrontendSettings().default_chunk_ms
    for settled in SETTLED_SECONDS:
        for rollback in ROLLBACKS:
            sums = _summed(hearings, chunk_ms, rules(settings, rollback, settled))
            yield [
                str(rollback),
                f"{settled:g}",
                f"{np.median(sums.committed):.2f}",
                f"{np.percentile(sums.committed, 95):.2f}",
                f"{sums.unsupported / sums.words:.2%}",
                f"{rate(sums.errors):.2%}",
            ]


def held_rows(hearings: Sequence[Hearing], settings: ProcessorSettings) -> Iterator[list[str]]:
    """Yield a row for each `held_words`, with the default chunk and rules."""
    usual = rules(settings, settings.rollback_tokens, settings.settled_seconds)
    for held in HELD_WORDS:
        sums = _summed(hearings, FrontendSettings().default_chunk_ms, usual, held)
        yield [
            str(held),
            f"{np.median(sums.shown):.2f}",
            f"{np.percentile(sums.shown, 95):.2f}",
            f"{100 * sums.changed / sums.words:.1f}",
        ]


def report(hearings: Sequence[Hearing], settings: ProcessorSettings) -> str:
    """Return the tables, as in RESULTS.md."""
    minutes = sum(len(h.segment.samples) for h in hearings) / SAMPLE_RATE / 60
    lines = [f"{len(hearings)} segments, {minutes:.1f} minutes of speech.", ""]
    lines += table(_CHUNK_COLUMNS, list(chunk_rows(hearings, settings)))
    lines += table(_ROLLBACK_COLUMNS, list(rollback_rows(hearings, settings)))
    lines += table(_HELD_COLUMNS, list(held_rows(hearings, settings)))
    return "\n".join(lines)


def _cadence(run: Run) -> None:
    torch.set_num_threads(1)
    dice, detector, settings = random.Random(12), VoiceActivitySequence(), ProcessorSettings()
    voices = [corpus(name) for name in ("seen", "unseen")]
    count = run.arguments.recordings
    made = [spoken(voices[n % 2], dice, _SECONDS, _PAUSES) for n in range(count)]
    reference = Reference(run.arguments.model)
    cut = [segment for recording in made for segment in segments(recording, detector)]
    text = report([Hearing(reference, segment, settings) for segment in cut], settings)
    print(text)
    if run.arguments.write:
        replace_between(ROOT / "benchmarks/RESULTS.md", "cadence", text)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", type=Path, default=ROOT / "models/demo")
    parser.add_argument("--recordings", type=int, default=4, help="of a minute")
    parser.add_argument("--write", action="store_true", help="into RESULTS.md")


BENCHMARK = Benchmark(
    description=__doc__, parts={"cadence": _cadence}, arguments=_arguments, sizes=(), out=None
)

if __name__ == "__main__":
    main(BENCHMARK)
