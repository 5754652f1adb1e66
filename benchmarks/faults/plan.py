"""Derives a list of faults from a seed. No I/O."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from benchmarks.faults.kinds import CONTROL, KINDS, REQUEST_PLANE, Kind

CONFIG = "configs/demo.yaml"
LANES = 2  # sessions at a time, by default
# Between a tenth and eight tenths of the audio, so that there is text before and after.
_EARLIEST, _LATEST = 0.1, 0.8
# Names of recordings; a repeated name is used more often. A full run has time for longer ones.
_QUICK_AUDIO = ("kitchen", "station", "kitchen", "market")
_FULL_AUDIO = ("kitchen", "market", "evening", "station")
_FULL_ROUNDS = 5
_CONTROL_EVERY = 10


@dataclass(frozen=True)
class Fault:
    """Fault `number` of a plan: `kind` is injected once `share` of the recording `audio` is spoken.

    It lasts `seconds` if its kind ends by itself.
    """

    number: int
    kind: str
    audio: str
    share: float
    seconds: float

    @property
    def of(self) -> Kind:
        """Its kind."""
        return CONTROL if self.kind == CONTROL.name else KINDS[self.kind]


def planned(
    seed: int,
    *,
    quick: bool = False,
    only: Sequence[str] = (),
    count: int | None = None,
    audio: Sequence[str] = (),
) -> list[Fault]:
    """Return the faults of a run; the same arguments give the same list.

    Faults of the request plane come first, while calls use it. `only` are names of kinds; by
    default the run has all kinds, with `quick` the ones that need little time. `count` is the
    number of faults; by default the kinds determine it. `audio` are files that replace the bundled
    recordings.
    """
    dice = random.Random(seed)
    kinds = _kinds(quick, only, count)
    dice.shuffle(kinds)
    of_plane = [kind for kind in kinds if kind.plane == REQUEST_PLANE]
    others = [kind for kind in kinds if kind.plane != REQUEST_PLANE]
    audio = audio or (_QUICK_AUDIO if quick else _FULL_AUDIO)
    return [
        Fault(
            number=number,
            kind=kind.name,
            audio=dice.choice(audio),
            share=round(dice.uniform(_EARLIEST, _LATEST), 3),
            seconds=round(dice.uniform(*kind.seconds), 1) if kind.seconds else 0.0,
        )
        for number, kind in enumerate([*_apart(of_plane), *_apart(others)])
    ]


def audios(plan: Sequence[Fault]) -> tuple[str, ...]:
    """Return the recordings that a plan needs, each once."""
    return tuple(sorted({fault.audio for fault in plan}))


def _kinds(quick: bool, only: Sequence[str], count: int | None) -> list[Kind]:
    if only:
        chosen = [KINDS[name] for name in only]
        return list(islice(cycle(chosen), count or len(chosen)))
    times = {kind.name: kind.quick if quick else _FULL_ROUNDS for kind in KINDS.values()}
    # Round by round, so that a smaller `count` has as many kinds as it can.
    rounds = max(times.values())
    chosen = [kind for n in range(rounds) for kind in KINDS.values() if times[kind.name] > n]
    if count is not None:
        chosen = list(islice(cycle(chosen), count))
    return chosen + [CONTROL] * max(1, len(chosen) // _CONTROL_EVERY)


def _apart(kinds: Sequence[Kind]) -> list[Kind]:
    """Return the kinds in an order in which, as far as possible, no target comes twice in a row.

    Processes that one fault ended restart while the next faults have other targets.
    """
    left, ordered = list(kinds), []
    recent: list[str] = []
    while left:
        at = next((n for n, kind in enumerate(left) if kind.target not in recent), 0)
        kind = left.pop(at)
        ordered.append(kind)
        recent = [*recent[-1:], kind.target]
    return ordered
