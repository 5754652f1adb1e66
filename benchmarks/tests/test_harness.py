"""The command line of benchmarks."""

from __future__ import annotations

import pytest

from benchmarks.harness import Benchmark
from benchmarks.registry import NAMES
from benchmarks.run import first_line

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("sizes", [(), ("quick",), ("quick", "smoke")])
def test_the_help_names_all_options(sizes: tuple[str, ...]) -> None:
    # More options than fit into a line: argparse then wraps them by group.
    parts = {f"a_part_with_a_long_name_{number}": dict for number in range(5)}
    benchmark = Benchmark(description="Measures.", parts=parts, sizes=sizes)  # type: ignore[arg-type]
    shown = benchmark.parser.format_help()
    assert [size for size in ("quick", "smoke") if f"--{size}" in shown] == list(sizes)


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_is_listed_with_its_first_line(name: str) -> None:
    assert first_line(name).endswith(".") or first_line(name).endswith("?")
