"""How late and how good live translations are, with either policy, against those of whole text."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sacrebleu.metrics import BLEU, CHRF

from auricle.client import Final, Partial, Translation
from auricle_testing.server import Server
from benchmarks.streaming.audio import Recording
from benchmarks.translation.graph import (
    Asked,
    Heard,
    all_heard,
    kept,
    reference,
    sentences,
    taken_back,
    target_text,
    translations,
)
from benchmarks.translation.latency import lags, longyaal

_SECONDS = 18.0
_AT_ONCE = 2
_MASKS = (1, 3, 5)
_WORKER = "auricle_translate_worker"


@dataclass(frozen=True)
class Live:
    """Recordings, and what sessions in real time were told of them."""

    recordings: list[Recording]
    sessions: list[list[Heard]]


def streaming(asked: Asked) -> dict[str, Any]:
    """Measure the policy that is delivered, and translations of whole segments beside it."""
    recordings = asked.recordings(asked.of(24, 8), _SECONDS)
    with asked.serving() as server:
        all_heard(server.url, asked.recordings(1, 4.0, seed=99), 1)  # not measured: a warm-up
        before = _tokens(server)
        live = Live(recordings, all_heard(server.url, recordings, _AT_ONCE))
        prompt, cached, drafted, accepted = (
            now - then for now, then in zip(_tokens(server), before, strict=True)
        )
        whole = all_heard(server.url, recordings, _AT_ONCE, live=False, partials=False)
    ended = [one for events in live.sessions for one in translations(events).values()]
    return {
        "erasure": float(sum(map(taken_back, live.sessions))),
        "translations_missing_share": sum(bool(one.missing) for one in ended) / max(1, len(ended)),
        "prefix_cache_hit_ratio": cached / max(1.0, prompt),
        "draft_accepted_ratio": accepted / max(1.0, drafted),
        **_quality("agreement", live),
        **_quality("offline", Live(recordings, whole)),
        **_latency("agreement", live),
        "example": _example(live),
    }


def masks(asked: Asked) -> dict[str, float]:
    """Measure mask-k, on the same recordings."""
    recordings = asked.recordings(asked.of(24, 8), _SECONDS)
    found: dict[str, float] = {}
    for words in _MASKS[: asked.of(3, 3)]:
        options = ("--Processor.translation_policy=mask", "--Processor.translation_mask_words")
        with asked.serving(options[0], f"{options[1]}={words}") as server:
            all_heard(server.url, asked.recordings(1, 4.0, seed=99), 1)
            live = Live(recordings, all_heard(server.url, recordings, _AT_ONCE))
        name = f"mask_{words}"
        found |= _quality(name, live) | _latency(name, live)
        found[f"erasure_{name}"] = float(sum(map(taken_back, live.sessions)))
    return found


def _tokens(server: Server) -> list[float]:
    kinds = ("prompt", "cached", "draft", "accepted")
    return server.metrics("TranslateWorker", *(f"{_WORKER}_{kind}_tokens_total" for kind in kinds))


def _quality(name: str, live: Live) -> dict[str, float]:
    told = [target_text(events) for events in live.sessions]
    wanted = [[reference(recording) for recording in live.recordings]]
    return {
        f"bleu_{name}": BLEU().corpus_score(told, wanted).score,
        f"chrf_{name}": CHRF().corpus_score(told, wanted).score,
    }


def _latency(name: str, live: Live) -> dict[str, float]:
    found = list(itertools.chain(*(session_lags(events) for events in live.sessions)))
    figures = {
        f"lag_median_s_{name}": float(np.median(found)) if found else math.nan,
        f"lag_p95_s_{name}": float(np.percentile(found, 95)) if found else math.nan,
    }
    for kind, aware in (("unaware", False), ("aware", True)):
        scores = [
            longyaal(kept(events), sentences(recording), recording.seconds, aware=aware)
            for recording, events in zip(live.recordings, live.sessions, strict=True)
        ]
        figures[f"longyaal_{kind}_s_{name}"] = float(np.nanmean(scores))
    return figures


def session_lags(events: Sequence[Heard]) -> list[float]:
    """Return how long after its source each committed word of a translation was committed."""
    source: dict[int, list[float]] = {}
    target: dict[int, list[float]] = {}
    for one in events:
        match one.event:
            case Partial(segment=segment, committed=text):
                _grow(source.setdefault(segment, []), text, one.at)
            case Final(segment=segment, text=text):
                _grow(source.setdefault(segment, []), text, one.at)
            case Translation(segment=segment, committed=text):
                _grow(target.setdefault(segment, []), text, one.at)
            case _:
                pass
    return [lag for segment, at in target.items() for lag in lags(source.get(segment, []), at)]


def _grow(times: list[float], text: str, at: float) -> None:
    times += [at] * (len(text.split()) - len(times))


def _example(live: Live) -> list[dict[str, str]]:
    """Return the first session's texts, for a reader."""
    return [
        {"said": recording_text(recording), "told": target_text(events)}
        for recording, events in zip(live.recordings[:1], live.sessions[:1], strict=True)
    ]


def recording_text(recording: Recording) -> str:
    """Return what is said in it."""
    return " ".join(word.text for word in recording.words)
