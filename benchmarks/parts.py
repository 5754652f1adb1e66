"""A benchmark in parts, each with figures of its own: what was measured, and what was left out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from benchmarks import results

Size = Literal["full", "quick", "smoke"]
_Asked = TypeVar("_Asked")


class LeftOut(Exception):
    """A part cannot be measured here; the message says what is missing."""


@dataclass(frozen=True, kw_only=True)
class Sized:
    """How much is measured."""

    size: Size

    def of(self, full: int, quick: int, smoke: int = 1) -> int:
        """Return the number for this size."""
        return {"full": full, "quick": quick, "smoke": smoke}[self.size]


def measured(
    asked: _Asked, parts: Mapping[str, Callable[[_Asked], dict[str, Any]]]
) -> tuple[dict[str, float], dict[str, Any], dict[str, str]]:
    """Return figures, what else parts told (by part), and why parts were left out."""
    figures: dict[str, float] = {}
    details: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    for name, part in parts.items():
        print(f"measuring {name}", file=sys.stderr, flush=True)
        try:
            found = part(asked)
        except LeftOut as why:
            left_out[name] = str(why)
            continue
        figures |= {key: value for key, value in found.items() if isinstance(value, int | float)}
        if rest := {key: value for key, value in found.items() if key not in figures}:
            details[name] = rest
    return figures, details, left_out


def measure_into(
    out: Path,
    asked: _Asked,
    name: str,
    part: Callable[[_Asked], dict[str, Any]],
    told: Mapping[str, Any],
) -> None:
    """Add one part to the result at `out`, with what is `told` of it all, and print it.

    Figures of other parts stay.
    """
    figures, details, left_out = measured(asked, {name: part})
    kept = results.kept(out)
    before = {part: why for part, why in kept.get("left_out", {}).items() if part != name}
    result = {
        "figures": kept.get("figures", {}) | figures,
        "details": kept.get("details", {}) | details,
        "left_out": before | left_out,
        **told,
    }
    results.write(out, result)
    results.tell(figures)
    for left, why in left_out.items():
        print(f"{left} is left out: {why}", flush=True)
