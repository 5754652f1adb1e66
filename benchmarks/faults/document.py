"""The rows of one run of the fault suite, or of several, as docs/RELIABILITY.md. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.faults.figures import Row, figures, recoveries
from benchmarks.faults.kinds import CONTROL, KINDS, Kind
from benchmarks.faults.plan import CONFIG, LANES
from benchmarks.markdown import figure_table, heading, table
from benchmarks.registry import ENTRIES

DOCUMENT = Path(__file__).parents[2] / "docs/RELIABILITY.md"
_FULL = 1_000  # faults; a run with fewer may miss rare failures
_PROMISED = """\
# Reliability

This page shows measured effects of faults on live sessions: known audio is sent in real time
while one fault after the other is injected into a running graph. Every transcript is compared word
by word with the undisturbed transcript of the same audio.
[METRICS.md](../benchmarks/METRICS.md#faults) defines the figures, and
[one_chunk.md](one_chunk.md#when-something-fails) lists the detection of each fault and reactions.

[RESULTS.md](../benchmarks/RESULTS.md) has the behaviour under overload.
This page is generated: `python -m benchmarks.report faults FILE …`.
"""
_NOT_PROMISED = """\
## Limits of these results

- A pool needs another replica that can take over: the figures are for two of each. With one,
  sessions wait until it has been restarted, and end with an error after
  `Frontend.processor_deadline_seconds` or when all attempts of a decode are used up.
- Simultaneous faults in the same pool were not tested; in different pools they were.
- If a transcript differs, another word replaces one that was wrong in both: after a fault, grid
  points are skipped, and a decode begins from another hypothesis.
- Loss of Kubernetes' discovery was not tested. `python -m benchmarks.faults.partitions` cuts the
  network between [several hosts](several_hosts.md#when-the-network-fails)
  ([results](../benchmarks/RESULTS.md)). A separate test covers
  an etcd outage of a minute (`tests/integration/test_etcd_nats.py`).
- Recordings (`/v1/audio/transcriptions`) and `/v1/realtime` were not tested, only
  `/v1/audio/stream`.
"""


def document(runs: Sequence[Sequence[Row]], note: str = "") -> Iterator[str]:
    """Return lines of Markdown: the figures of each run, and the kinds of all."""
    yield from _PROMISED.splitlines()
    yield ""
    for run in runs:
        yield from _figures(run, note)
    rows = [row for run in runs for row in run]
    yield "## By kind"
    yield ""
    yield "`recovery` is how long text stood still, in seconds: median and most of all sessions"
    yield "that were live. The other columns are of the fault's own session."
    yield ""
    names = ["kind", "of", "what", "faults", "lost", "doubled", "identical", "recovery", "command"]
    done = [kind for kind in (*KINDS.values(), CONTROL) if _of(kind, rows)]
    yield from table(names, [_cells(kind, rows) for kind in done])
    yield from _failed(rows)
    for run in runs:
        yield from _different(run)
    if left := [item for row in rows if row["type"] == "left" for item in row["what"]]:
        yield "Left behind:"
        yield ""
        yield from (f"- {item}" for item in left)
        yield ""
    yield from _NOT_PROMISED.splitlines()


def _figures(rows: Sequence[Row], note: str) -> Iterator[str]:
    run = next(row for row in rows if row["type"] == "run")
    measured = figures(rows)
    only = ": cut connections and dead frontends" if run["arguments"]["only"] else ""
    yield from heading(f"Figures{only}", run["environment"], _command(run["arguments"]))
    if note:
        yield note
        yield ""
    if measured["faults_injected"] < _FULL:
        yield f"{measured['faults_injected']:g} faults: rare failures may not have come up."
        yield ""
    yield from figure_table(ENTRIES["faults"].figures, measured, {})


def _command(arguments: Row) -> str:
    """Return the command of a run."""
    said = [ENTRIES["faults"].command, f"--seed {arguments['seed']}"]
    said += ["--quick"] if arguments["quick"] else []
    said += [f"--only {' '.join(arguments['only'])}"] if arguments["only"] else []
    said += [f"--count {arguments['count']}"] if arguments["count"] else []
    said += [f"--lanes {arguments['lanes']}"] if arguments["lanes"] != LANES else []
    config = arguments.get("config", CONFIG)
    said += [f"--config {config}"] if config != CONFIG else []
    engine = arguments.get("engine")
    said += [f"--engine {engine}"] if engine else []
    audio = arguments.get("audio", [])
    said += [f"--audio {' '.join(audio)}"] if audio else []
    return " ".join(said)


def _different(rows: Sequence[Row]) -> Iterator[str]:
    """Return a list of the transcripts that differ from the undisturbed ones, with their words."""
    spoken = {row["audio"]: row["text"] for row in rows if row["type"] == "reference"}
    faults = [row for row in rows if row["type"] == "fault" and not row["error"]]
    found = [row for row in faults if not row["identical"]]
    if not found:
        return
    yield "Transcripts that differ, undisturbed → with the fault:"
    yield ""
    for row in found:
        before, after = spoken[row["audio"]].split(), row["text"].split()
        steps = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        words = [
            f"“{' '.join(before[a:b])}” → “{' '.join(after[c:d])}”"
            for step, a, b, c, d in steps
            if step != "equal"
        ]
        yield f"- `{row['kind']}` in `{row['audio']}`: {', '.join(words)}"
    yield ""


def _failed(rows: Sequence[Row]) -> Iterator[str]:
    """Return a list of the sessions that failed: a fault may outlast its own session."""
    failed = [row for row in rows if row["type"] == "fault" and row["error"]]
    if not failed:
        return
    yield "Sessions that failed:"
    yield ""
    for row in failed:
        came = " and ".join(f"`{hit['kind']}`" for hit in row["hits"]) or "no fault"
        yield f"- `{row['kind']}`, after {came}: {row['error']}"
    yield ""


def _of(kind: Kind, rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["type"] == "fault" and row["kind"] == kind.name]


def _cells(kind: Kind, rows: Sequence[Row]) -> list[str]:
    own = _of(kind, rows)
    seconds = sorted(recoveries([r for r in rows if r["type"] == "fault"], {kind.name}))
    shown = f"{_middle(seconds):.1f}, {seconds[-1]:.1f}" if seconds else ""
    failed = sum(bool(row["error"]) for row in own)
    command = f"`--only {kind.name}`" if kind is not CONTROL else ""
    return [
        f"`{kind.name}`",
        kind.target,
        kind.what,
        f"{sum(row['injected'] for row in own)}" + (f" ({failed} failed)" if failed else ""),
        f"{sum(row['lost'] for row in own)}",
        f"{sum(row['doubled'] for row in own)}",
        f"{sum(row['identical'] for row in own)} of {len(own)}",
        shown,
        command,
    ]


def _middle(ordered: Sequence[float]) -> float:
    return ordered[len(ordered) // 2]
