"""Word errors of a checkpoint by length of its segments, with and without context.

    python -m benchmarks.ways.lengths [--recordings 20] [--write]

Decodes the same speech, segmented as in the server, for several values of `pause_after_seconds` and
with and without the text of the previous segment as context. Each segment is decoded by itself, in
one process. `--write` puts the table into the model card.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from auricle.audio.pcm import to_float, to_int16
from auricle.audio.segmentation import SegmentLimits
from auricle.audio.voice_activity import VoiceActivitySequence, VoiceState
from auricle.config.settings import CommonSettings, FrontendSettings
from auricle.frontend.audio.chunks import AudioEvent
from auricle.frontend.audio.endpointing import Endpointer, EndpointingOptions
from auricle.frontend.recordings.parts import PartCutter, RecordingPart
from benchmarks.harness import Benchmark, Run, main
from benchmarks.markdown import replace_between, table
from benchmarks.prepared import ROOT, corpus
from benchmarks.speech import Recording, spoken
from benchmarks.ways.audio import CORPUS, word_lists
from benchmarks.words import errors, rate
from models.training.reference import Reference

PAUSE_AFTER_SECONDS = (1.5, 2, 3, 5, 8, 15)
CONTEXT_CHARACTERS = (0, 120)
_MAX_SEGMENT_SECONDS = 20.0
_SECONDS = 60.0  # of a recording
_PAUSES = (0.05, 1.0)
Kinds = dict[str, list[Recording]]


def recordings(count: int, seed: int = 11) -> Kinds:
    """Minutes of one speaker each."""
    dice = random.Random(seed)
    voices = {
        "sentences, seen voices": corpus("seen"),
        "sentences, unseen voices": corpus("unseen"),
        "word lists, unseen voices": word_lists(CORPUS),
    }
    return {
        kind: [spoken(corpus_, dice, _SECONDS, _PAUSES) for _ in range(count)]
        for kind, corpus_ in voices.items()
    }


class Decoder:
    """Decodes parts in this process; the same part with the same context once."""

    def __init__(self, model: Path) -> None:
        self._reference = Reference(model)
        self._known: dict[tuple[bytes, str], str] = {}

    def texts(self, parts: Sequence[RecordingPart], context_characters: int) -> Iterator[str]:
        """Yield the texts, each with the end of the previous one as context."""
        before = ""
        for part in parts:
            # Cut at a space, as in a session.
            short = len(before) <= context_characters
            context = before if short else before[-context_characters:].partition(" ")[2]
            text = self._text(part.pcm, context if context_characters else "")
            before = text or before
            yield text

    def _text(self, pcm: bytes, context: str) -> str:
        if (pcm, context) not in self._known:
            samples = to_float(np.frombuffer(pcm, "<i2"))
            tokens = self._reference.tokens(samples, context=context)
            self._known[pcm, context] = self._reference.text(tokens)
        return self._known[pcm, context]


def speech(model: VoiceActivitySequence, recording: Recording) -> list[AudioEvent]:
    """Return the events of the server's voice activity detection with default options."""
    settings, voice, pcm = FrontendSettings(), VoiceState(), to_int16(recording.samples)
    gate = Endpointer(
        EndpointingOptions.over(settings, threshold=None, min_silence_ms=None, pre_roll_ms=None)
    )
    events = gate.push(pcm, model.probabilities(voice, voice.frames(pcm)).tolist())
    last = model.probabilities(voice, voice.frames(pcm[:0], last=True))
    return events + gate.finish(last.tolist())


def parts(events: list[AudioEvent], pause_after: float) -> list[RecordingPart]:
    """The segments of a recording."""
    cutter = PartCutter(
        SegmentLimits.from_seconds(
            pause_after=pause_after,
            maximum=_MAX_SEGMENT_SECONDS,
            search=CommonSettings().cut_search_seconds,
        )
    )
    return [*cutter.push(events), *cutter.finish()]


def rows(model: Path, spoken_: Kinds) -> Iterator[list[str]]:
    """The rows of the table: word error rates per `pause_after_seconds` and context."""
    detector, decoder = VoiceActivitySequence(), Decoder(model)
    events = {kind: [speech(detector, one) for one in some] for kind, some in spoken_.items()}
    for pause_after in PAUSE_AFTER_SECONDS:
        cut = {kind: [parts(one, pause_after) for one in some] for kind, some in events.items()}
        for characters in CONTEXT_CHARACTERS:
            rates = [
                rate(
                    [
                        errors(
                            one.text, " ".join(filter(None, decoder.texts(segments, characters)))
                        )
                        for one, segments in zip(some, cut[kind], strict=True)
                    ]
                )
                for kind, some in spoken_.items()
            ]
            yield [f"{pause_after:g}", str(characters), *(f"{value:.1%}" for value in rates)]


def _lengths(run: Run) -> None:
    torch.set_num_threads(1)
    made = recordings(run.arguments.recordings)
    names = ["`pause_after_seconds`", "`context_characters`", *made]
    text = "\n".join(table(names, list(rows(run.arguments.model, made))))
    print(text)
    if run.arguments.write:
        replace_between(run.arguments.model / "README.md", "segments", text)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", type=Path, default=ROOT / "models/demo")
    parser.add_argument("--recordings", type=int, default=20, help="of a minute, of each kind")
    parser.add_argument("--write", action="store_true", help="into the model card")


BENCHMARK = Benchmark(
    description=__doc__, parts={"lengths": _lengths}, arguments=_arguments, sizes=(), out=None
)

if __name__ == "__main__":
    main(BENCHMARK)
