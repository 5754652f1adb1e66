"""The part of docs/comparison.md about other servers, from a result file. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.markdown import number, table
from benchmarks.peers import figures
from benchmarks.peers.figures import FINAL_SECONDS, WER_POINTS

DOCUMENT = Path(__file__).parents[2] / "docs/comparison.md"
_EXPLAINED = f"""\
Each server is as published, alone on the machine, in an
environment of its own, with the same weights, audio and clients.

`carried` is the largest number of live sessions at a time that meets the objective: all sessions
end, 95% have their last text within {FINAL_SECONDS:g} s of the end of their audio, and their error
rate is not measurably more than {WER_POINTS:g} point above the same recordings' as a whole. The
other columns are of one session at a time: 95th percentiles of times, words shown and later changed
per 100, CPU seconds per second of audio, memory of all processes. `auricle's −` is auricle's rate
of wrong words − the server's, for the sessions that ended with both. `invented` are words for audio
without speech.
"""
_LIVE = {
    "first_s_p95": "first text, s",
    "final_s_p95": "last text, s",
    "wer": "words wrong, %",
    "ours_minus": "auricle's −, points",
    "revised_per_100": "revised",
    "cpu_per_second": "CPU, s per s",
    "peak_mib": "MiB",
}
_RECORDED = {"rtfx": "times real time", "wer": "words wrong, %", "cpu_per_second": "CPU, s per s"}


def part(result: Mapping[str, Any]) -> Iterator[str]:
    """Return lines of Markdown: a table of live sessions and one of recordings, for each model."""
    details, at = result["details"], result["environment"]
    yield f"{at['cpu']}, {at['cores']} cores; {at['date']}. {_EXPLAINED}"
    for model in dict.fromkeys(row["model"] for row in details["live"]):
        yield f"### {model}"
        yield ""
        yield from _live(details, model)
        yield from _recordings(details, model)
        plot = f"../benchmarks/plots/peers-{model}.png"
        yield f"![Sessions and latency of all servers, {model}]({plot})"
        yield ""


def _live(details: Mapping[str, Any], model: str) -> Iterator[str]:
    rows = [row for row in details["live"] if row["model"] == model]
    carried = figures.carried(rows)
    invented = {
        row["server"]: f"{row['invented']} in {row['minutes']:.1f} min"
        for row in details["wordless"]
        if row["model"] == model
    }
    yield from table(
        ["live, server", "carried", *_LIVE.values(), "invented"],
        [
            [
                *(row["server"], f"{carried[row['server'], model]}"),
                *(number(row[name], "–") for name in _LIVE),
                invented.get(row["server"], "–"),
            ]
            for row in rows
            if row["sessions"] == 1
        ],
    )


def _recordings(details: Mapping[str, Any], model: str) -> Iterator[str]:
    rows = [row for row in details["recordings"] if row["model"] == model]
    if rows:
        yield from table(
            ["recordings, configuration", *_RECORDED.values(), "MiB"],
            [
                [
                    row["configuration"],
                    *(number(row[name]) for name in _RECORDED),
                    number(row["peak_mib"]),
                ]
                for row in sorted(rows, key=lambda row: -float(row["rtfx"]))
            ],
        )
