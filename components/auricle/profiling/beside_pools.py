"""Measures the pools beside the path that a deployment has, one after the other."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import Int16
from auricle.checkpoint.files import open_checkpoint
from auricle.checkpoint.text_model import open_text_model
from auricle.load.reports import PoolKind
from auricle.profiling.align_pool import AlignAsking
from auricle.profiling.beside import Asking, BesideRamp
from auricle.profiling.cast import Cast, Said, Stage
from auricle.profiling.diarize_pool import DiarizeAsking
from auricle.profiling.translate_pool import TranslateAsking
from auricle.runtime import Runtime

# What is said is taken from so many pieces of the recordings, of at most so many seconds.
_PIECES, _PIECE_SECONDS = 24, 10.0
_SHORTEST = SAMPLE_RATE // 2


async def measure_beside(
    stage: Stage, told: Callable[[str], None]
) -> dict[PoolKind, tuple[float, float]]:
    """Return what each pool carries, as `BesideRamp.carried` does; empty where there is none.

    `told` is given a line for each level. Raises AuricleError if a pool cannot be measured.
    """
    runtime = Runtime(stage.settings)
    found: dict[PoolKind, tuple[float, float]] = {}
    try:
        for asking in await askings(runtime, stage):
            ramp = BesideRamp(runtime, stage.settings.load_report_seconds, asking, told)
            found |= await ramp.carried()
    finally:
        runtime.close()
    return found


async def askings(runtime: Runtime, stage: Stage) -> list[Asking]:
    settings = stage.settings
    found: list[Asking] = []
    if settings.align_model is not None:
        aligner = await asyncio.to_thread(open_checkpoint, settings.align_model)
        found.append(AlignAsking(runtime, stage, aligner))
    if settings.speaker_model is not None:
        found.append(DiarizeAsking(runtime, stage))
    if settings.translate_model is not None:
        model = await asyncio.to_thread(open_text_model, settings.translate_model)
        said = await _said(runtime, stage)
        targets = settings.translate_targets or model.targets
        found.append(TranslateAsking(runtime, settings, said, targets))
    return found


async def _said(runtime: Runtime, stage: Stage) -> list[Said]:
    """Have the recordings recognised, which come without their text."""
    cast = Cast(runtime, stage)
    await cast.ready()
    return [await cast.said(piece) for piece in itertools.islice(_pieces(stage), _PIECES)]


def _pieces(stage: Stage) -> itertools.chain[Int16]:
    """Return pieces of the recordings, those from the beginning of each first."""
    length = int(_PIECE_SECONDS * SAMPLE_RATE)
    longest = max(len(recording) for recording in stage.recordings)
    return itertools.chain.from_iterable(
        [one[at : at + length] for one in stage.recordings if len(one) > at + _SHORTEST]
        for at in range(0, longest, length)
    )
