"""False cuts of turns by a turn model, and by silence with the same delay.

    python -m benchmarks.annotations.turns --out FILE [--speech DIRECTORY] [--quick]

Each turn is an utterance without a pause of its own, into which one pause is inserted: 0.3 to 2 s
long, drawn evenly, at the quietest point of its middle, or between two words where these are known.
A turn that ends in that pause is a false cut. The delay is from the end of the utterance to its
detection. The silence is as long as the turn model's mean delay, so that both are equally fast;
voice activity is the same.

`--speech` is a folder of recordings of people; by default apt-get downloads Debian's
`asterisk-core-sounds-en-wav`. Takes minutes on one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, quantiles
from typing import Any

import numpy as np

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.decode import read_audio, resample
from auricle.audio.pcm import Int16, to_float, to_int16
from auricle.audio.turn_model import SmartTurn
from auricle.audio.voice_activity import VAD_FRAME, VoiceActivitySequence, VoiceState
from auricle.config.settings import FrontendSettings
from auricle.frontend.audio.chunks import SpeechEnd
from auricle.frontend.audio.endpointing import Endpointer, EndpointingOptions
from auricle.frontend.audio.turn_detection import WAITS, TurnWait
from benchmarks.harness import Benchmark, LeftOut, Run, main
from benchmarks.people.packages import calls
from models.training.espeak import espeak
from models.training.packages import NoPackages
from models.training.sentences import SentenceMaker
from models.training.voices import UNSEEN_VOICES

MODEL = Path("models/smart-turn/smart-turn-v3.2-cpu.onnx")
_SHORTEST, _LONGEST = 2.2, 8.0  # seconds of an utterance
_PAUSES = (0.3, 2.0)
_AFTER = 10.0  # seconds of silence after a turn, longer than any wait
_NO_PAUSE = 0.1  # seconds: with a longer pause an utterance may be two sentences
_NOISE = 4.0  # of 32,768: room noise, so that silence is not digital zero


@dataclass(frozen=True)
class Case:
    """A turn with a pause. `resumes` is the sample at which speech continues."""

    pcm: Int16
    resumes: int
    probabilities: list[float]


@dataclass(frozen=True)
class Row:
    """The outcome of one end-of-turn rule; `false_cuts` is a share of the turns."""

    way: str
    turns: int
    false_cuts: float
    delay_ms_mean: float
    delay_ms_p50: float
    delay_ms_p95: float


class Listener:
    """Voice activity and the turn model, as a frontend has them; answers are kept."""

    def __init__(self) -> None:
        self._voice = VoiceActivitySequence()
        self._model = SmartTurn(MODEL)
        self._known: dict[bytes, float] = {}

    def probabilities(self, pcm: Int16) -> list[float]:
        """Return the speech probability of each frame."""
        state = VoiceState()
        found: list[float] = self._voice.probabilities(state, state.frames(pcm)).tolist()
        return found

    def probability(self, turn: Int16) -> float:
        """Return the probability that the turn is over."""
        key = turn.tobytes()
        if key not in self._known:
            self._known[key] = self._model.probability(turn)
        return self._known[key]

    def stops(self, case: Case, options: EndpointingOptions) -> Iterator[tuple[int, int]]:
        """Yield the sample at which speech ended, and the one at which that was detected."""
        gate = Endpointer(options)
        for frame, probability in enumerate(case.probabilities, 1):
            pcm = case.pcm[(frame - 1) * VAD_FRAME : frame * VAD_FRAME]
            events = gate.push(pcm, [probability])
            while gate.asks:
                events += gate.answer(self.probability(gate.turn))
            for event in events:
                if isinstance(event, SpeechEnd):
                    yield event.at, frame * VAD_FRAME


def people(directory: Path) -> Iterator[tuple[Int16, None]]:
    """Yield the utterances of the recordings in a folder, at 16 kHz."""
    for file in sorted(directory.rglob("*.wav")):
        pcm = to_int16(read_audio(file))
        if _SHORTEST <= len(pcm) / SAMPLE_RATE <= _LONGEST:
            yield pcm, None


def synthetic(count: int) -> Iterator[tuple[Int16, int]]:
    """Yield sentences of espeak-ng, and a sample between two words of each."""
    engine, maker, chosen = espeak(), SentenceMaker(20), np.random.default_rng(20)
    while count:
        text = maker.sentence()
        speech = engine.speak(text, UNSEEN_VOICES[count % len(UNSEEN_VOICES)], 150, 50, 60)
        pcm = to_int16(resample(to_float(speech.samples), speech.rate))
        ends = speech.word_ends_seconds[1:-1]
        if ends and _SHORTEST <= len(pcm) / SAMPLE_RATE <= _LONGEST:
            count -= 1
            yield pcm, int(float(chosen.choice(ends)) * SAMPLE_RATE)


def cases(spoken: Iterable[tuple[Int16, int | None]], listener: Listener) -> Iterator[Case]:
    """Yield the turns, each with a pause of its own; the same each time."""
    chosen = np.random.default_rng(7)
    silence = EndpointingOptions(FrontendSettings().speech_threshold, int(1000 * _NO_PAUSE), 300)
    for pcm, between in spoken:
        pause = int(chosen.uniform(*_PAUSES) * SAMPLE_RATE)
        at = _quietest(pcm) if between is None else between
        after = int(_AFTER * SAMPLE_RATE)
        alone = _in_a_room([pcm], after, chosen)
        found = Case(alone, 0, listener.probabilities(alone))
        whole = _in_a_room([pcm[:at], np.zeros(pause, np.int16), pcm[at:]], after, chosen)
        if len(list(listener.stops(found, silence))) == 1:
            yield Case(whole, at + pause, listener.probabilities(whole))


def _quietest(pcm: Int16) -> int:
    """Return the sample in the middle of the quietest 60 ms between 35% and 75% of an utterance."""
    width = 60 * SAMPLE_RATE // 1000
    energy = np.convolve(pcm.astype(np.float64) ** 2, np.ones(width), "valid")
    begin, end = int(0.35 * len(energy)), int(0.75 * len(energy))
    return begin + int(np.argmin(energy[begin:end])) + width // 2


def _in_a_room(parts: Sequence[Int16], after: int, chosen: np.random.Generator) -> Int16:
    joined = np.concatenate([*parts, np.zeros(after, np.int16)]).astype(np.float64)
    noisy: Int16 = np.clip(joined + chosen.normal(0, _NOISE, len(joined)), -32768, 32767).astype(
        np.int16
    )
    return noisy


def row(way: str, turns: Sequence[Case], listener: Listener, options: EndpointingOptions) -> Row:
    """Return the outcome of one end-of-turn rule on these turns."""
    cut, delays = 0, []
    for turn in turns:
        stops = list(listener.stops(turn, options))
        cut += any(found < turn.resumes for _, found in stops)
        at, found = stops[-1]  # there is one: the silence after a turn is longer than any wait
        delays.append((found - at) * 1000 / SAMPLE_RATE)
    parts = quantiles(delays, n=20, method="inclusive")
    return Row(way, len(turns), cut / len(turns), mean(delays), parts[9], parts[18])


def table(turns: Sequence[Case], listener: Listener) -> list[Row]:
    """Return a row for each eagerness, and after it one for silence with the same mean delay."""
    settings, rows = FrontendSettings(), []

    def options(silence_ms: int, wait: TurnWait | None) -> EndpointingOptions:
        return EndpointingOptions(settings.speech_threshold, silence_ms, 300, wait)

    for eagerness in ("low", "medium", "high"):
        semantic = row(eagerness, turns, listener, options(500, WAITS[eagerness]))
        # Silence is detected at the end of a frame, half a frame late on average.
        silence_ms = round(semantic.delay_ms_mean - VAD_FRAME * 500 / SAMPLE_RATE)
        by_silence = row(f"silence {silence_ms}", turns, listener, options(silence_ms, None))
        rows += [semantic, by_silence]
    return rows


def measured(spoken: Iterable[tuple[Int16, int | None]], listener: Listener) -> dict[str, Any]:
    """Return `turn_false_cut_ratio` (turn model ÷ silence, medium eagerness) and the table."""
    turns = list(cases(spoken, listener))
    rows = table(turns, listener)
    semantic, silence = (one.false_cuts for one in rows[2:4])
    return {
        "turns": len(turns),
        "turn_false_cut_ratio": semantic / silence if silence else None,
        "rows": [asdict(one) for one in rows],
    }


def turn_figures(run: Run) -> dict[str, Any]:
    """Return the ratios by their names, and the tables of both kinds of speech.

    The recordings of people come from the folder `--speech`, by default from Debian's package.
    Raises LeftOut without either.
    """
    try:
        speech = getattr(run.arguments, "speech", None) or calls()
    except NoPackages as why:
        raise LeftOut(f"{why}; or name a folder of people's speech with --speech") from None
    listener, count = Listener(), run.of(160, 40, 40)
    spoken = list(people(speech))
    kinds = {
        "synthetic": ("_synthetic", synthetic(count)),
        "people": ("", iter(spoken[:: max(1, len(spoken) // count)])),
    }
    figures: dict[str, Any] = {}
    for kind, (suffix, utterances) in kinds.items():
        figures[kind] = measured(utterances, listener)
        if (ratio := figures[kind]["turn_false_cut_ratio"]) is not None:
            figures[f"turn_false_cut_ratio{suffix}"] = ratio
    return figures


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--speech", type=Path, help="folder of WAV files of people")


BENCHMARK = Benchmark(
    description=__doc__, parts={"turns": turn_figures}, arguments=_arguments, sizes=("quick",)
)

if __name__ == "__main__":
    main(BENCHMARK)
