"""Sentences and tables for the sections of RESULTS.md, in addition to their figures. Pure.

Each function takes the JSON of a benchmark's result file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.clients.figures import REFERENCES
from benchmarks.markdown import figure_table, number, table
from benchmarks.registry import ENTRIES
from benchmarks.ways.ways import WAYS

Result = dict[str, Any]


def _clients_introduction(result: Result) -> str:
    return (
        f"{result['figures']['clients_sessions']:.0f} sessions. Bars: all texts equal, first and "
        "last text ≤ 1.3, CPU of frontend and processor ≤ 1.5, each ÷ the value of our own "
        "protocol in the same round."
    )


INTRODUCTIONS: dict[str, Callable[[Result], str]] = {
    "annotations": lambda result: f"Aligner: {result['aligner']}.",
    "clients": _clients_introduction,
    "keywords": lambda result: f"Voices: {result['voices']}.",
    "translation": lambda result: f"Translator: {result['translator']}.",
}


def counted(name: str, result: Result) -> dict[str, float]:
    """Return figures that follow from the details of all trials."""
    if name != "overload":
        return {}
    return {
        figure: float(sum(found[figure] for found in _trials(result).values()))
        for figure in ("refusals_unclear", "sessions_stretched")
    }


def _by_variant(
    measured: Mapping[str, float], columns: Mapping[str, str], variants: Mapping[str, str]
) -> Iterator[str]:
    """Return a table of figures named `FIGURE_VARIANT`: a row per variant, a column per figure."""
    rows = [
        [shown, *(number(measured.get(f"{figure}_{variant}")) for figure in columns)]
        for variant, shown in variants.items()
    ]
    yield from table(["way", *columns.values()], rows)


def _ways(result: Result) -> Iterator[str]:
    columns = {
        "wer": "word errors, points",
        "same_text": "texts equal to the command line's",
        "invented_words": "words without speech",
        "decodes_per_grid_point": "decodes per grid point",
    }
    variants = {way: way.replace("_", " ") for way in WAYS}
    yield from _by_variant(result["figures"], columns, variants)


def _clients(result: Result) -> Iterator[str]:
    columns = {
        "same_text": "texts equal",
        "first_text_ratio": "first text ÷",
        "kept_text_ratio": "first text that stays ÷",
        "last_text_ratio": "last text ÷",
        "cpu_ratio": "CPU ÷",
    }
    measured = result["figures"]

    def cell(name: str) -> str:
        if f"{name}_low" not in measured:
            return number(measured.get(name))
        low, high = measured[f"{name}_low"], measured[f"{name}_high"]
        return f"{number(measured[name])} ({number(low)} to {number(high)})"

    rows = [
        [way, own, *(cell(f"clients_{column}_{way}") for column in columns)]
        for way, own in REFERENCES.items()
    ]
    yield from table(["way in", "compared with", *columns.values()], rows)


def _translation(result: Result) -> Iterator[str]:
    policies = {
        "agreement": "agreement",
        "mask_1": "mask-1",
        "mask_3": "mask-3",
        "mask_5": "mask-5",
        "offline": "whole segments",
    }
    by_policy = {
        "bleu": "BLEU",
        "chrf": "chrF",
        "lag_median_s": "lag behind the committed source: median, s",
        "lag_p95_s": "95th percentile, s",
        "longyaal_unaware_s": "LongYAAL, computation-unaware, s",
        "longyaal_aware_s": "LongYAAL, computation-aware, s",
    }
    measured = result["figures"]
    columns = [name for name in policies if f"bleu_{name}" in measured]
    rows = [
        [what, *(number(measured.get(f"{figure}_{name}"), "–") for name in columns)]
        for figure, what in by_policy.items()
    ]
    if columns:
        yield from table(["", *(policies[name] for name in columns)], rows)


def _trials(result: Result) -> Result:
    return {name: found for name, found in result["details"].items() if name != "capacity"}


def _overload(result: Result) -> Iterator[str]:
    columns = {
        "sessions_offered": "offered",
        "sessions": "let in",
        "slo_share": "inside the SLO",
        "goodput": "goodput",
        "clients_refused": "clients refused",
        "wait_p50_s": "wait p50, s",
        "partial_lag_p95_ms": "lag p95, ms",
        "latency_p95_ms": "latency p95, ms",
        "wer": "WER",
    }
    rows = [
        [name.replace("_", ", "), *(number(found[column]) for column in columns)]
        for name, found in _trials(result).items()
    ]
    yield from table(["trial", *columns.values()], rows)


def _hostile(result: Result) -> Iterator[str]:
    rows = [
        [
            row["name"],
            f"{row['cases']}",
            row["outcome"],
            number(row["lag_growth"] or None),
            number(row["memory_growth"]),
            number(row["cpu_share"]),
            f"{row['log_lines']}",
        ]
        for row in result["details"]["rows"]
    ]
    shown = ("outcome", "lag growth", "frontend's memory", "attacker's CPU", "log lines")
    yield from table(["area or attack", "cases", *shown], rows)


def _real_speech(result: Result) -> Iterator[str]:
    from benchmarks.real_speech.units import SETS, WAYS, WORDLESS

    exact = result.get("exact", {})
    for model, found in result["models"].items():
        measured = found["figures"]
        yield from (f"### {model}", "")
        yield from figure_table(ENTRIES["real_speech"].figures, measured, {})
        if model in exact:
            known = ENTRIES["real_speech.exact"].figures
            yield from figure_table(known, exact[model]["figures"], {})
        yield from ("Word errors in points, and CPU seconds per second of audio:", "")

        def cell(way: str, name: str, measured: dict[str, float] = measured) -> str:
            points = measured.get(f"wer_{way}_{name}")
            cpu = measured.get(f"cpu_per_second_{way}_{name}")
            return "" if points is None else f"{number(points)} · {number(cpu)}"

        sets = [
            name for name in SETS
            if name != WORDLESS and any(f"wer_{way}_{name}" in measured for way in WAYS)
        ]  # fmt: skip
        ways = [way for way in WAYS if any(f"wer_{way}_{name}" in measured for name in sets)]
        rows = [[name, *(cell(way, name) for way in ways)] for name in sets]
        yield from table(["", *(way.replace("_", " ") for way in ways)], rows)


# Peers

_LIVE = {
    "first_s_p50": "first text p50, s",
    "first_s_p95": "p95",
    "final_s_p50": "last text p50, s",
    "final_s_p95": "p95",
    "wer": "words wrong, %",
    "offline_wer": "of whole recordings",
    "ours_minus": "auricle's −, points",
    "revised_per_100": "revised, per 100 words",
    "cpu_per_second": "CPU, s per s",
    "peak_mib": "MiB",
}


def _with_interval(row: Mapping[str, Any], name: str) -> str:
    low, high = row.get(f"{name}_interval") or (None, None)
    value = number(row[name], "–")
    return value if low is None else f"{value} ({number(low)} to {number(high)})"


def _peers(result: Result) -> Iterator[str]:
    details = result["details"]
    for model in dict.fromkeys(row["model"] for row in details["live"]):
        rows = [row for row in details["live"] if row["model"] == model]
        yield from (f"Live sessions, {model}:", "")
        yield from table(
            ["server", "sessions", "kept", "ended", *_LIVE.values()],
            [
                [
                    *(row["server"], f"{row['sessions']}", "yes" if row["kept"] else "no"),
                    f"{row['ended']}",
                    *(_with_interval(row, name) for name in _LIVE),
                ]
                for row in rows
            ],
        )
        yield from (f"![sessions and latency, {model}](plots/peers-{model}.png)", "")
    if details["wordless"]:
        yield from ("Words written for audio without speech:", "")
        yield from table(
            ["server", "model", "minutes", "words"],
            [
                [row["server"], row["model"], number(row["minutes"]), f"{row['invented']}"]
                for row in details["wordless"]
            ],
        )
    yield from ("Whole recordings, on both cores:", "")
    yield from table(
        ["configuration", "model", "times real time", "words wrong, %", "CPU, s per s", "MiB"],
        [
            [
                *(row["configuration"], row["model"]),
                f"{number(row['rtfx'])} ({number(row['rtfx_low'])} to {number(row['rtfx_high'])})",
                _with_interval(row, "wer"),
                *(number(row["cpu_per_second"]), number(row["peak_mib"])),
            ]
            for row in details["recordings"]
        ],
    )
    yield from ("Commands:", "")
    yield from (f"- {name}: `{command}`" for name, command in details["commands"].items())
    yield ""


# Load

_POINT = {
    "sessions_offered": "sessions",
    "slo_share": "inside the SLO",
    "partial_lag_p95_ms": "partial lag p95, ms",
    "stop_to_final_p95_ms": "stop to final p95, ms",
    "commit_lag_p95_ms": "commit lag p95, ms",
    "unstable_word_ratio": "unstable words",
    "wer": "WER",
    "cores": "cores",
    "peak_mib": "MiB",
}
_RECORDED = {
    "concurrency": "concurrent requests",
    "files": "files",
    "rtfx": "RTFx",
    "cpu_ms": "CPU, ms per second",
    "wer": "WER",
}


def _load(result: Result) -> Iterator[str]:
    details = result["details"]
    for model in ("demo", "3x"):
        yield from _curves(details, model)
    rows = []
    for key in sorted(k for k in details if k.startswith("recorded_")):
        _, model, name = key.split("_", 2)
        rows += [[name, model, *(number(row[k]) for k in _RECORDED)] for row in details[key]]
    if rows:
        yield from ("Recorded files:", "")
        yield from table(["server", "model", *_RECORDED.values()], rows)
    yield from _waterfall(details)
    yield from _by_process(details)


def _curves(details: dict[str, Any], model: str) -> Iterator[str]:
    """Return, for each server, the largest load carried and the smallest load not carried."""
    rows, condition = [], ""
    for key in sorted(k for k in details if k.startswith("curve_") and k.endswith(model)):
        name = key.removeprefix("curve_").removesuffix(f"_{model}").replace("_", "-")
        condition, points = details[key]["condition"], details[key]["points"]
        carried = [p for p in points if p["carried"]]
        beyond = [p for p in points if not p["carried"]]
        for point in [*carried[-1:], *beyond[:1]]:
            verdict = "yes" if point["carried"] else "no" if point.get("valid", 1.0) else "invalid"
            goodput = point["sessions_offered"] * point["slo_share"] / point["cores"]
            values = [*(point[measure] for measure in _POINT), goodput]
            rows.append([name, verdict, *map(number, values)])
    if rows:
        shown = "models/demo" if model == "demo" else f"`{model}`"
        yield from (f"Side by side, {shown}: {condition}.", "")
        names = ["server", "carried", *_POINT.values(), "sessions inside per core used"]
        yield from table(names, rows)
        yield from (f"![latency against sessions](plots/load-{model}.png)", "")


def _waterfall(details: dict[str, Any]) -> Iterator[str]:
    for key, what in (
        ("waterfall_ms", "at half of capacity"),
        ("waterfall_10x_ms", "with `10x`, one session"),
    ):
        if key in details:
            yield from (f"Where a chunk's time goes {what} (medians, ms, from traces):", "")
            found = details[key]
            names = [n for n in found if n not in ("chunk", "control")]
            row = [number(found[n]) for n in names]
            yield from table([n.replace("_", " ") for n in names], [row])
    if "waterfall_ms" in details:
        yield from ("![a chunk's waterfall](plots/load-waterfall.png)", "")


def _by_process(details: dict[str, Any]) -> Iterator[str]:
    prefix = "cpu_per_audio_second_"
    rows = [
        [key.removeprefix(prefix), number(1000 * value)]
        for key, value in details.get("half", {}).items()
        if key.startswith(prefix)
    ]
    if rows:
        yield from ("CPU at half of capacity:", "")
        yield from table(["process", "ms per second of audio"], rows)
    if "profiles" in details:
        yield from ("Hottest functions there (share of samples that hold the interpreter):", "")
        hottest = [
            [name, ", ".join(f"`{where}` {share:.0%}" for where, share in list(found.items())[:4])]
            for name, found in details["profiles"].items()
        ]
        yield from table(["process", "own time"], hottest)


# Planner


def _planner(result: Result) -> Iterator[str]:
    details = result["details"]
    columns = ("gpu_hours", "clairvoyant_hours", "static_hours", "hpa_hours_tuned_on_this_trace")
    rows = [
        [*_trace(row), *(number(row[name], "none is") for name in columns)]
        for row in details.get("traces", ())
    ]
    titles = ["GPUs at the peak", "inside the SLO", "GPU-hours", "clairvoyant", "static"]
    titles = ["trace", *titles, "HPA tuned on this trace alone"]
    yield from _with_plots(titles, rows, "planner")
    rows = [
        [
            *_trace(row),
            *(number(row[name], "none is") for name in ("gpu_hours", "hpa_hours", "hours_ratio")),
            f"{row['slo_gained']:+.4f}",
            f"{row['hpa_slo']:.4f}",
        ]
        for row in details.get("fronts", ())
    ]
    titles = ["GPUs at the peak", "inside the SLO", "GPU-hours", "HPA as good", "ratio"]
    titles = ["bursty trace", *titles, "SLO gained, worst target", "best SLO of an HPA"]
    yield from _with_plots(titles, rows, "planner-front")
    if "local_on" in details:
        yield from ("Workers of the local burst (seconds: encode, PD):", "")
        yield ", ".join(
            f"{at:.0f}: {ready['EncodeWorker']}, {ready['PdWorker']}"
            for at, ready in details["local_on"]["replicas"]
        )
        yield ""


def _planner_sweep(result: Result) -> Iterator[str]:
    rows = [
        [
            *_trace(row),
            *(number(row[name], "none is") for name in ("gpu_hours", "hpa_hours", "over_bound")),
        ]
        for row in result["details"].get("sweep", ())
    ]
    titles = ["GPUs at the peak", "inside the SLO", "GPU-hours", "HPA as good", "÷ the bound"]
    yield from table(["trace", *titles], rows)


def _trace(row: Mapping[str, Any]) -> list[str]:
    return [row["trace"], number(row["gpus"]), f"{row['slo']:.4f}"]


def _with_plots(titles: Sequence[str], rows: Sequence[list[str]], plots: str) -> Iterator[str]:
    """Return a table whose first column has the names of traces, and the plot of each."""
    if rows:
        yield from table(titles, rows)
        yield from (
            f"![{name}](plots/{plots}-{name}.png)" for name in dict.fromkeys(r[0] for r in rows)
        )
        yield ""


TABLES: dict[str, Callable[[Result], Iterator[str]]] = {
    "load": _load,
    "clients": _clients,
    "real_speech": _real_speech,
    "peers": _peers,
    "translation": _translation,
    "planner": _planner,
    "planner_sweep": _planner_sweep,
    "ways": _ways,
    "overload": _overload,
    "hostile": _hostile,
}
