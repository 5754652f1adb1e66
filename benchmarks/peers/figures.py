"""Figures of METRICS.md, "Peers", from the rows that were recorded. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.load.metrics import stability, stop_to_final
from benchmarks.load.record import Record
from benchmarks.real_speech.scoring import Interval, difference, interval, points
from benchmarks.statistics import percentile, percentile_interval
from benchmarks.words import Errors

OURS = "auricle"  # in the tables
FINAL_SECONDS = 1.0
WER_POINTS = 1.0
Row = dict[str, Any]


@dataclass(frozen=True)
class Heard:
    """One session: seconds to its first text and from its end to its last, and its words.

    `first` is None without text, and `final` if the session failed.
    """

    name: str
    outcome: str
    first: float | None
    final: float | None
    wrong: int
    words: int
    revised: int
    text: str


def heard(record: Record, errors: Errors) -> Heard:
    """Return the result of a session, given the word errors of its text."""
    onset = record.plan.speech[0][0]
    shown = (e.at for e in record.events if (e.committed + e.partial).strip())
    at = next(shown, None)
    final = stop_to_final(record)
    return Heard(
        record.plan.name,
        record.outcome if not record.reason else f"{record.outcome}: {record.reason}",
        None if at is None or not record.due_at else at - record.due(onset),
        final if math.isfinite(final) else None,
        errors.wrong,
        errors.words,
        stability(record).erased,
        record.text,
    )


def live(rows: Iterable[Row]) -> list[Row]:
    """Return a row for each server, model and number of sessions, in the order of measurement.

    Repeated measurements are pooled; intervals are from a bootstrap over sessions.
    """
    recorded = [row for row in rows if row["part"] in ("live", "recordings")]
    offline = _offline(recorded)
    groups: dict[tuple[str, str, int], list[Row]] = {}
    for row in recorded:
        if row["part"] == "live":
            groups.setdefault((row["server"], row["model"], row["sessions"]), []).append(row)
    return [
        _pooled(group, offline.get((group[0]["offline"], model), {}))
        | _compared(groups.get((OURS, model, sessions), ()), () if server == OURS else group)
        for (server, model, sessions), group in groups.items()
    ]


def _compared(ours: Iterable[Row], theirs: Iterable[Row]) -> Row:
    """Return auricle's points of wrong words − the other server's, for sessions that both ended.

    Loads of as many sessions send the same sessions in the same order, but a server whose sessions
    end later ends fewer of them. None without such a session.
    """
    mine, other = _ended(ours), _ended(theirs)
    pairs = [(mine[name], other[name]) for name in mine if name in other]
    if not pairs:
        return {"ours_minus": None, "ours_minus_interval": None}
    a, b = ([pair[side] for pair in pairs] for side in (0, 1))
    return {"ours_minus": points(a) - points(b), "ours_minus_interval": difference(a, b)}


def _ended(group: Iterable[Row]) -> dict[str, Errors]:
    """Return the word errors of the sessions that ended, by name; the first of repeated ones."""
    found: dict[str, Errors] = {}
    for one in (Heard(**fields) for row in group for fields in row["heard"]):
        if one.final is not None:
            found.setdefault(one.name, Errors(one.wrong, one.words))
    return found


def _offline(rows: Iterable[Row]) -> dict[tuple[str, str], dict[str, Errors]]:
    """Return the word errors of whole recordings, by configuration and model."""
    return {
        (row["configuration"], row["model"]): _errors(row)
        for row in rows
        if row["part"] == "recordings"
    }


def _errors(row: Row) -> dict[str, Errors]:
    return {name: Errors(*counts) for name, counts in row["errors"].items()}


def _pooled(group: Sequence[Row], offline: Mapping[str, Errors]) -> Row:
    sessions = [Heard(**one) for row in group for one in row["heard"]]
    names = [one.name.partition("/")[0] for one in sessions]
    # Of the same recordings, unless each session has words of its own.
    whole = [offline[name] for name in names if name in offline] or [*offline.values()]
    done = [one for one in sessions if one.final is not None]
    errors = [Errors(one.wrong, one.words) for one in done]
    same = [
        offline[name]
        for one, name in zip(sessions, names, strict=True)
        if one.final is not None and name in offline
    ]
    words = max(1, sum(row.words for row in errors))
    found = {
        **{name: group[0][name] for name in ("server", "model", "sessions")},
        "ended": len(sessions),
        "failed": len(sessions) - len(done),
        "late": next((row["late"] for row in group if row["late"]), ""),
        **_percentiles("first_s", [one.first for one in done if one.first is not None]),
        **_percentiles("final_s", [one.final for one in done if one.final is not None]),
        "wer": points(errors) if done else math.nan,
        "wer_interval": interval(errors),
        "offline_wer": points(whole) if whole else None,
        "worse_interval": _worse(errors, same, whole),
        "revised_per_100": 100 * sum(one.revised for one in done) / words,
        "cpu_per_second": sum(row["cpu_seconds"] for row in group)
        / max(1e-9, sum(row["audio_seconds"] for row in group)),
        "peak_mib": max(row["peak_mib"] for row in group),
    }
    return found | {"kept": kept(found)}


def _worse(errors: Sequence[Errors], same: Sequence[Errors], whole: Sequence[Errors]) -> Interval:
    """Return the 95% interval of the points by which live sessions are worse than recordings.

    `same` are of the same recordings as `errors`, where there are any. None if it is unknown.
    """
    if errors and len(same) == len(errors):
        return difference(errors, same)
    found = interval(errors)
    if found is None or not whole:
        return None
    return found[0] - points(whole), found[1] - points(whole)


def kept(row: Mapping[str, Any]) -> bool:
    """Return whether a load was within the objective, which is the same for all servers.

    All sessions ended, 95% of last texts came within FINAL_SECONDS, and the error rate is not
    measurably more than WER_POINTS above the rate of whole recordings: of its difference, the lower
    end of the interval counts.
    """
    worse = 0.0 if row["offline_wer"] is None else row["wer"] - row["offline_wer"]
    if row["worse_interval"] is not None:
        worse = row["worse_interval"][0]
    return bool(
        row["ended"]
        and not row["failed"]
        and not row["late"]
        and row["final_s_p95"] <= FINAL_SECONDS
        and worse <= WER_POINTS
    )


def _percentiles(name: str, values: Sequence[float]) -> Row:
    found: Row = {}
    for share in (50, 95):
        found[f"{name}_p{share}"] = percentile(values, share / 100)
        found[f"{name}_p{share}_interval"] = percentile_interval(values, share / 100)
    return found


def wordless(rows: Iterable[Row]) -> list[Row]:
    """Return the words that each server and model wrote for audio without words."""
    return [
        {
            "server": row["server"],
            "model": row["model"],
            "minutes": row["audio_seconds"] / 60,
            "invented": sum(len(one["text"].split()) for one in row["heard"]),
        }
        for row in rows
        if row["part"] == "wordless"
    ]


def recordings(rows: Iterable[Row]) -> list[Row]:
    """Return speed and error rates of whole recordings by configuration and model: medians."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row["part"] == "recordings":
            groups.setdefault((row["configuration"], row["model"]), []).append(row)
    found = []
    for (configuration, model), group in groups.items():
        speeds = [row["audio_seconds"] / row["wall_seconds"] for row in group]
        errors = [*_errors(group[0]).values()]
        found.append(
            {
                "configuration": configuration,
                "model": model,
                "rtfx": median(speeds),
                "rtfx_low": min(speeds),
                "rtfx_high": max(speeds),
                "wer": points(errors),
                "wer_interval": interval(errors),
                "cpu_per_second": median(r["cpu_seconds"] / r["audio_seconds"] for r in group),
                "peak_mib": max(row["peak_mib"] for row in group),
            }
        )
    return found


def carried(rows: Iterable[Row]) -> dict[tuple[str, str], int]:
    """Return the most sessions within the objective, by server and model; 0 for none."""
    found: dict[tuple[str, str], int] = {}
    for row in rows:
        key = row["server"], row["model"]
        found[key] = max(found.get(key, 0), row["sessions"] if row["kept"] else 0)
    return found


def tables(rows: Sequence[Row]) -> dict[str, Any]:
    """Return all that is published."""
    return {
        "live": live(rows),
        "wordless": wordless(rows),
        "recordings": recordings(rows),
        "commands": commands(rows),
    }


def commands(rows: Iterable[Row]) -> dict[str, str]:
    """Return the command that each server was started with, for its first model."""
    found: dict[str, str] = {}
    for row in rows:
        found.setdefault(row.get("server") or row["configuration"], row["command"])
    return found


def line(row: Row) -> str:
    """Return a row of `live` in words, to follow the progress."""
    return (
        f"{row['server']} {row['model']}, {row['sessions']} at a time: "
        f"{'kept' if row['kept'] else 'not kept'}; {row['ended']} ended, {row['failed']} failed"
        f"{', ' + row['late'] if row['late'] else ''}; last text p95 {row['final_s_p95']:.2f} s, "
        f"{row['wer']:.1f}% wrong, {row['cpu_per_second']:.2f} CPU s per s"
    )
