"""Live translation, measured on the real graph with a translate pool.

    python -m benchmarks.translation --out FILE [--quick | --smoke] [--only PART]

Figures already in FILE of other parts are kept.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.parts import measure_into
from benchmarks.prepared import ROOT
from benchmarks.translation.costs import capacity, delays
from benchmarks.translation.faults import faults
from benchmarks.translation.graph import Asked
from benchmarks.translation.streaming import masks, streaming

# Each returns figures by name.
PARTS: Mapping[str, Callable[[Asked], dict[str, Any]]] = {
    "streaming": streaming,
    "masks": masks,
    "delays": delays,
    "faults": faults,
    "capacity": capacity,
}


def main() -> None:
    """See the module."""
    parser = results.parser(__doc__)
    parser.add_argument("--only", choices=sorted(PARTS), action="append", help="may be repeated")
    parser.add_argument("--translator", type=Path, default=ROOT / "models/demo-translate")
    arguments = parser.parse_args()
    if not (arguments.translator / "config.json").exists():
        parser.error(f"{arguments.translator} has no checkpoint: name one, or make train-translate")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    asked = Asked(arguments.translator, size=arguments.scale)
    told = {"translator": arguments.translator.name}
    for name in arguments.only or PARTS:  # what was measured is kept if the next one fails
        measure_into(arguments.out, asked, name, PARTS[name], told)


if __name__ == "__main__":
    main()
