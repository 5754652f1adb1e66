"""Ordinary speech with real weights, by every protocol and by other implementations.

    python -m benchmarks.real_speech --model DIR_OR_NAME --ctranslate2 DIR --out FILE
        [--quick | --smoke] [--only WAY …] [--sets SET …] [--minutes N] [--resume]
        [--settings Processor.padding=full …]

Each set of recordings is transcribed in each way that the plan (`units.py`) has for it: by POST; by
the requests of `auricle transcribe`; live, as fast as the server takes it without skipping a grid
point; live in real time, to measure latencies; by faster-whisper with the same weights
(`make peers-env`); by transformers; and by transformers with the segments that POST found
(`offline`). The file holds the results of several checkpoints, and keeps results that are not
measured again; with `--resume` it keeps all. Without `--ctranslate2` faster-whisper is left out.
Takes two hours on two cores for tiny.en; `--quick` transcribes two minutes of each set. `--smoke`
makes a checkpoint of random weights, and only tests whether it runs.
"""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import psutil

from auricle_testing.server import AS_DELIVERED, Server, serving
from benchmarks import harness
from benchmarks.baselines.protocol import cpu_seconds
from benchmarks.prepared import ROOT
from benchmarks.real_speech import corpus, units
from benchmarks.real_speech.corpus import Spoken
from benchmarks.real_speech.figures import figures
from benchmarks.real_speech.live import timed
from benchmarks.real_speech.peers import Process, process
from benchmarks.real_speech.units import REAL_TIME, SERVED, SETS, WAYS, Row, Unit
from benchmarks.real_speech.weights import checkpoint
from benchmarks.ways import ways
from models.training.packages import NoPackages

_CONFIG = "configs/whisper.yaml"
_WORK = ROOT / "build/real-speech"
_MINUTES = {"full": 1e6, "quick": 2.0, "smoke": 0.2}
_AT_ONCE = 3
# Sessions do not yield to each other: a session ahead of real time would skip grid points.
_NOT_AHEAD = "--Frontend.ahead_seconds=1000000"
# Answers of random weights do not end, so the loop guard would drop all of them.
_RANDOM = ("--Processor.loop_guard=false",)
_CHUNK_MS = {"live": None, "live_640": 640, "live_2560": 2560}
_CODES = {"English": "en", "Spanish": "es", "French": "fr", "Italian": "it", "Russian": "ru"}


@dataclass(frozen=True)
class Asked:
    """The checkpoint, in transformers' and in CTranslate2's format, and settings of the server."""

    model: Path
    ctranslate2: Path | None
    settings: tuple[str, ...]
    minutes: float
    multilingual: bool

    def language(self, spoken: Spoken) -> str | None:
        """Return the language to request; None for checkpoints of English alone."""
        return spoken.language if self.multilingual else None


async def _served(url: str, way: str, asked: Asked, spoken: Spoken) -> Row:
    language = asked.language(spoken)
    if way == REAL_TIME:
        found = await timed(url, spoken.pcm, language)
        return Row(spoken.name, found.text, None, found.first, found.final)
    if way == "post":
        heard = await ways.post(url, spoken.pcm, language)
    elif way == "command_line":
        heard = await ways.command_line(url, spoken.pcm, language)
    else:
        heard = await ways.live(url, spoken.pcm, language, _CHUNK_MS[way])
    return Row(spoken.name, heard.text, tuple((s.start, s.end) for s in heard.segments))


async def _all(url: str, way: str, asked: Asked, some: Sequence[Spoken]) -> list[Row]:
    turns = asyncio.Semaphore(1 if way == REAL_TIME else _AT_ONCE)

    async def in_turn(spoken: Spoken) -> Row:
        async with turns:
            return await _served(url, way, asked, spoken)

    return await asyncio.gather(*map(in_turn, some))


def _of_server(server: Server, way: str, name: str, asked: Asked) -> Unit:
    some = units.audio(name, way, asked.minutes)
    launcher = psutil.Process(server.process.pid)
    before = cpu_seconds(launcher)
    rows = asyncio.run(_all(server.url, way, asked, some))
    seconds = sum(spoken.seconds for spoken in some)
    return Unit(tuple(rows), seconds, cpu_seconds(launcher) - before)


def _of_peer(subject: Process, way: str, name: str, asked: Asked, posted: Unit | None) -> Unit:
    some = units.audio(name, way, asked.minutes)
    parts = {row.name: row.parts for row in posted.rows} if posted else {}
    rows, cpu = [], 0.0
    for spoken in some:
        language = asked.language(spoken)
        code = _CODES[language] if language else None
        if way == "offline" and spoken.name not in parts:
            raise SystemExit(f"offline needs what post heard of {name} before: --only post offline")
        vad = way == "faster_whisper_vad"
        answer = subject.hear(spoken.pcm, code, parts.get(spoken.name), vad=vad)
        rows.append(Row(spoken.name, answer.text))
        cpu += answer.cpu_seconds
    return Unit(tuple(rows), sum(spoken.seconds for spoken in some), cpu)


def _kind(way: str) -> str:
    """Return the process for a way: a server as delivered, one with `_NOT_AHEAD`, or a peer."""
    if way in SERVED or way == REAL_TIME:
        return REAL_TIME if way == REAL_TIME else "served"
    return "faster_whisper" if way.startswith("faster_whisper") else "transformers"


@contextmanager
def _server(kind: str, asked: Asked) -> Iterator[Server]:
    how = AS_DELIVERED if kind == REAL_TIME else (_NOT_AHEAD,)
    with serving(f"--Common.model={asked.model}", *how, *asked.settings, config=_CONFIG) as server:
        # A warm-up, because the first session finds cold caches.
        asyncio.run(_served(server.url, "post", asked, corpus.recordings("people")[0]))
        yield server


def _measured(
    wanted: Sequence[tuple[str, str]], asked: Asked, known: dict[tuple[str, str], Unit]
) -> Iterator[tuple[tuple[str, str], Unit]]:
    """Yield each unit once it is measured; all units of a kind share one process."""
    order = ("served", REAL_TIME, "faster_whisper", "transformers")
    by_kind = sorted(wanted, key=lambda one: order.index(_kind(one[0])))
    for kind, group in groupby(by_kind, key=lambda one: _kind(one[0])):
        if kind in ("served", REAL_TIME):
            with _server(kind, asked) as server:
                for way, name in group:
                    yield (way, name), _of_server(server, way, name, asked)
            continue
        weights = asked.model if kind == "transformers" else asked.ctranslate2
        assert weights is not None
        with process(kind, weights, _WORK / "peers") as subject:
            for way, name in group:
                posted = known.get(("post", name)) if way == "offline" else None
                yield (way, name), _of_peer(subject, way, name, asked, posted)


def _measure(asked: Asked, wanted: list[tuple[str, str]], out: Path, label: str) -> None:
    """Write each unit's result once it is measured, and the figures of all."""
    result: dict[str, Any] = {"models": {}} | harness.read(out)
    mine = result["models"].setdefault(label, {"units": {}, "figures": {}})
    known = {_key(name): Unit.of(plain) for name, plain in mine["units"].items()}
    for key, unit in _measured(wanted, asked, known):
        known[key] = unit
        mine["units"]["/".join(key)] = asdict(unit)
        mine["figures"] = figures(known, units.texts([name for _, name in known]))
        harness.write(out, result)
        way, name = key
        shown = {n: v for n, v in mine["figures"].items() if f"{way}_{name}" in n or (
            way == REAL_TIME and "_p" in n)}  # fmt: skip
        harness.show(shown)


def _key(name: str) -> tuple[str, str]:
    way, _, of = name.partition("/")
    return way, of


def _wanted(arguments: Namespace, asked: Asked, label: str) -> list[tuple[str, str]]:
    """Return the units to measure."""
    ways: list[str] = arguments.only
    if asked.ctranslate2 is None:
        ways = [way for way in ways if not way.startswith("faster_whisper")]
    sets = ["people", "wordless"] if arguments.size == "smoke" else arguments.sets
    wanted = units.planned(ways, sets, multilingual=asked.multilingual)
    if arguments.resume:
        models = harness.read(arguments.out).get("models", {})
        have = models.get(label, {}).get("units", {})
        wanted = [one for one in wanted if "/".join(one) not in have]
    return wanted


def main() -> None:
    """See the module."""
    parser = harness.new_parser(__doc__)
    parser.add_argument("--out", type=Path, required=True)
    harness.add_sizes(parser)
    parser.add_argument("--model", help="a folder in transformers' format, or a name")
    parser.add_argument("--ctranslate2", type=Path, help="the same weights for faster-whisper")
    parser.add_argument("--only", nargs="+", choices=WAYS, default=list(WAYS), metavar="WAY")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), metavar="SET")
    parser.add_argument("--minutes", type=float, help="of each set, at most")
    parser.add_argument("--settings", nargs="+", default=[], metavar="NAME=VALUE")
    parser.add_argument("--resume", action="store_true")
    arguments = parser.parse_args()
    smoke = arguments.size == "smoke"
    if not (arguments.model or smoke):
        parser.error("--model is needed")
    with checkpoint(arguments.model) as found:
        asked = Asked(
            found.path,
            arguments.ctranslate2,
            (*(f"--{setting}" for setting in arguments.settings), *(_RANDOM if smoke else ())),
            arguments.minutes or _MINUTES[arguments.size],
            len(found.architecture.languages) > 1,
        )
        label = ", ".join([found.path.name, *arguments.settings])
        wanted = _wanted(arguments, asked, label)
        try:
            _measure(asked, wanted, arguments.out, label)
        except NoPackages as error:
            raise SystemExit(str(error)) from None
    if smoke:
        print("smoke: everything ran; the figures say nothing")


if __name__ == "__main__":
    main()
