"""Plots sessions at a time against latency, all servers of a model in one picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from benchmarks.peers.figures import FINAL_SECONDS

_MEASURES = {
    "first_s_p95": "from the start of speech to the first text, p95, s",
    "final_s_p95": "from the end of audio to the last text, p95, s",
}


def draw(rows: Sequence[dict[str, Any]], folder: Path) -> None:
    """Write `peers-MODEL.png` for each model, from rows of `figures.live`."""
    for model in dict.fromkeys(row["model"] for row in rows):
        figure, axes = plt.subplots(1, len(_MEASURES), figsize=(11, 4.5))
        for axis, (measure, what) in zip(axes, _MEASURES.items(), strict=True):
            for server in dict.fromkeys(row["server"] for row in rows if row["model"] == model):
                points = [r for r in rows if r["server"] == server and r["model"] == model]
                sessions = [row["sessions"] for row in points]
                axis.plot(sessions, [row[measure] for row in points], marker="o", label=server)
            axis.set_xlabel("sessions at a time")
            axis.set_ylabel(what)
            axis.set_yscale("log")
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
            axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axis.yaxis.set_minor_formatter(NullFormatter())
        axes[1].axhline(FINAL_SECONDS, color="gray", linestyle=":", label="objective")
        axes[1].legend(fontsize="small")
        figure.suptitle(f"{model}, two cores")
        figure.tight_layout()
        figure.savefig(folder / f"peers-{model}.png", dpi=110)
        plt.close(figure)
