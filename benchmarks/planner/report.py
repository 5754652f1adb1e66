"""The planner's JSON as its section of RESULTS.md, plots included.

python -m benchmarks.planner.report build/planner/planner.json
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import generated
from benchmarks.generated import number, table

# figure → (what it is, its bar)
FIGURES: dict[str, tuple[str, str]] = {
    "gpu_hours_vs_clairvoyant": ("GPU-hours ÷ the least possible, worst trace and size", "≤ 1.2"),
    "gpu_hours_vs_static_diurnal": ("÷ sized for the peak, diurnal, worst size", "≤ 0.6"),
    "gpu_hours_vs_static_flash": ("the same, flash crowds", "≤ 0.75"),
    "gpu_hours_vs_hpa": ("÷ an HPA on queues, tuned on these traces; worst", "≤ 0.9"),
    "slo_worst": ("sessions inside the SLO, worst trace and size", "≥ 0.99"),
    "slo_hpa_worst": ("the same of the HPA", ""),
    "slo_worst_minutes": ("the same in the worst five minutes", ""),
    "slo_with_wrong_profile": ("real capacity 20% off, either way; worst", "≥ 0.99"),
    "slo_with_wrong_mix": (
        "costs wrong in their mix: capacity moves by 15% over the day",
        "≥ 0.99",
    ),
    "front_slo_gained": ("bursty days: SLO above any HPA's of no more GPU-hours, worst", "≥ 0"),
    "front_hours_ratio": ("GPU-hours ÷ the cheapest HPA's as good, tuned on each; worst", "≤ 0.9"),
    "front_slo_held_share": ("share of them where 0.99 is held, or no HPA holds it", "1"),
    "front_slo_worst": ("sessions inside the SLO, worst of them", ""),
    "front_worst_minutes": ("the same in the worst five minutes", ""),
    "ratio_error_silence": ("encode ÷ PD against the best by search, silence-heavy", "≤ 0.1"),
    "ratio_error_speech": ("the same, speech-heavy", "≤ 0.1"),
    "reversals": ("decisions reversed within two minutes, all traces", "0"),
    "idle_workers_not_needed": ("local graph, idle to 10, 16 and back: workers not needed", "0"),
    "idle_workers_most": ("the most workers of a pool", ""),
    "idle_demand_most": ("the most that a pool was asked for, in workers", ""),
    "idle_slo_share": ("sessions of it inside the SLO", "≥ 0.99"),
    "idle_sessions": ("of so many", ""),
    "sessions_cut": ("local burst: sessions that did not end well", "0"),
    "samples_uncovered": ("audio in no segment, or in two", "0"),
    "events_lost_or_doubled": ("finals missing or twice, committed text gone back", "0"),
    "local_sessions": ("sessions of the local burst", ""),
    "local_changes": ("workers that came or went under them", ""),
    "local_slo_share_on": ("of them inside the SLO with the planner", ""),
    "local_slo_share_off": ("and without: on two cores more workers carry no more", ""),
}


def section(result: dict[str, Any], command: str, notes: str) -> Iterator[str]:
    """Return lines of Markdown."""
    yield from generated.heading("The planner", result["environment"], command)
    yield from generated.figures(FIGURES, result["figures"], result.get("invalid", {}))
    yield notes.strip()
    yield ""
    details = result["details"]
    yield from _traces(details.get("traces", ()))
    yield from _fronts(details.get("fronts", ()))
    if "local_on" in details:
        yield "Workers of the local burst (seconds: encode, PD):"
        yield ""
        yield ", ".join(
            f"{at:.0f}: {ready['EncodeWorker']}, {ready['PdWorker']}"
            for at, ready in details["local_on"]["replicas"]
        )
        yield ""


def _traces(traces: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Return the table and plots of the calm days."""
    if not traces:
        return
    rows = [
        [
            row["trace"],
            number(row["gpus"]),
            f"{row['slo']:.4f}",
            *(number(row[name]) for name in ("gpu_hours", "clairvoyant_hours", "static_hours")),
            _hours(row["hpa_hours_tuned_on_this_trace"]),
        ]
        for row in traces
    ]
    titles = ["trace", "GPUs at the peak", "inside the SLO", "GPU-hours", "clairvoyant", "static"]
    yield from table([*titles, "HPA tuned on this trace alone"], rows)
    yield from (f"![{name}](plots/planner-{name}.png)" for name in _names(traces))
    yield ""


def _fronts(fronts: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Return the table and plots of the bursty days."""
    if not fronts:
        return
    rows = [
        [
            row["trace"],
            number(row["gpus"]),
            f"{row['slo']:.4f}",
            number(row["gpu_hours"]),
            _hours(row["hpa_hours"]),
            _hours(row["hours_ratio"]),
            f"{row['slo_gained']:+.4f}",
            f"{row['hpa_slo']:.4f}",
        ]
        for row in fronts
    ]
    titles = ["bursty trace", "GPUs at the peak", "inside the SLO", "GPU-hours", "HPA as good"]
    yield from table([*titles, "ratio", "SLO gained, worst target", "best SLO of an HPA"], rows)
    yield from (f"![{name}](plots/planner-front-{name}.png)" for name in _names(fronts))
    yield ""


def _hours(value: float | None) -> str:
    return "none is" if value is None else number(value)


def _names(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield from dict.fromkeys(row["trace"] for row in rows)


def main() -> None:
    """See the module."""
    parser = generated.parser(__doc__, "python -m benchmarks.planner --out FILE")
    parser.add_argument("--notes", type=Path, default=Path(__file__).with_name("NOTES.md"))
    arguments = parser.parse_args()
    notes = arguments.notes.read_text()
    generated.publish(
        "planner", arguments.result, lambda result: section(result, arguments.command, notes)
    )


if __name__ == "__main__":
    main()
