"""Latency and quality of live translations by policy, compared with whole segments."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from sacrebleu.metrics import BLEU, CHRF

from auricle.client import Final, Partial, Translation
from auricle_testing.server import Server
from benchmarks.harness import Run
from benchmarks.sessions import Session
from benchmarks.speech import Recording
from benchmarks.statistics import percentile
from benchmarks.translation.graph import (
    all_translated,
    committed,
    recordings,
    reference,
    sentences,
    taken_back,
    target_text,
    translating,
)
from benchmarks.translation.latency import lags, longyaal

_SECONDS = 18.0
_AT_ONCE = 2
_MASKS = (1, 3, 5)
_WORKER = "auricle_translate_worker"


@dataclass(frozen=True)
class Live:
    """Recordings and their sessions."""

    recordings: list[Recording]
    sessions: list[Session]


def _spoken(run: Run) -> list[Recording]:
    return recordings(run.of(24, 8), _SECONDS)


def _live(server: Server, some: list[Recording]) -> Live:
    return Live(some, all_translated(server.url, some, _AT_ONCE))


def _warm_up(server: Server) -> None:
    all_translated(server.url, recordings(1, 4.0, seed=99), 1)


def streaming(run: Run) -> dict[str, Any]:
    """Measure the delivered policy, and translations of whole segments for comparison."""
    some = _spoken(run)
    with translating(run) as server:
        _warm_up(server)
        before = _tokens(server)
        live = _live(server, some)
        prompt, cached, drafted, accepted = (
            now - then for now, then in zip(_tokens(server), before, strict=True)
        )
        whole = all_translated(server.url, some, _AT_ONCE, live=False, partials=False)
    ended = [one for session in live.sessions for one in session.of(Translation).values()]
    return {
        "erasure": float(sum(map(taken_back, live.sessions))),
        "translations_missing_share": sum(bool(one.missing) for one in ended) / max(1, len(ended)),
        "prefix_cache_hit_ratio": cached / max(1.0, prompt),
        "draft_accepted_ratio": accepted / max(1.0, drafted),
        **_quality("agreement", live),
        **_quality("offline", Live(some, whole)),
        **_latency("agreement", live),
        "example": {"source": some[0].text, "translation": target_text(live.sessions[0])},
    }


def masks(run: Run) -> dict[str, float]:
    """Measure mask-k, on the same recordings."""
    some = _spoken(run)
    found: dict[str, float] = {}
    for words in _MASKS[: run.of(3, 3)]:
        options = ("--Processor.translation_policy=mask", "--Processor.translation_mask_words")
        with translating(run, options[0], f"{options[1]}={words}") as server:
            _warm_up(server)
            live = _live(server, some)
        name = f"mask_{words}"
        found |= _quality(name, live) | _latency(name, live)
        found[f"erasure_{name}"] = float(sum(map(taken_back, live.sessions)))
    return found


def _tokens(server: Server) -> list[float]:
    kinds = ("prompt", "cached", "draft", "accepted")
    return server.metrics("TranslateWorker", *(f"{_WORKER}_{kind}_tokens_total" for kind in kinds))


def _quality(name: str, live: Live) -> dict[str, float]:
    translations = [target_text(session) for session in live.sessions]
    references = [[reference(recording) for recording in live.recordings]]
    return {
        f"bleu_{name}": BLEU().corpus_score(translations, references).score,
        f"chrf_{name}": CHRF().corpus_score(translations, references).score,
    }


def _latency(name: str, live: Live) -> dict[str, float]:
    found = list(itertools.chain(*(session_lags(session) for session in live.sessions)))
    figures = {
        f"lag_median_s_{name}": percentile(found, 0.5),
        f"lag_p95_s_{name}": percentile(found, 0.95),
    }
    for kind, aware in (("unaware", False), ("aware", True)):
        scores = [
            longyaal(committed(session), sentences(recording), recording.seconds, aware=aware)
            for recording, session in zip(live.recordings, live.sessions, strict=True)
        ]
        figures[f"longyaal_{kind}_s_{name}"] = float(np.nanmean(scores))
    return figures


def session_lags(session: Session) -> list[float]:
    """Return how long after its source each committed word of a translation was committed."""
    source: dict[int, list[float]] = {}
    target: dict[int, list[float]] = {}
    for one in session.events:
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
