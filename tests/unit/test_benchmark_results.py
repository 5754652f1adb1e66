"""What several benchmarks have in common: the scale that is asked for, and the file of a result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import results

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("options", "scale"), [([], "full"), (["--quick"], "quick"), (["--smoke"], "smoke")]
)
def test_a_scale_is_full_unless_it_is_said(options: list[str], scale: str) -> None:
    assert results.parser("x").parse_args(["--out", "a.json", *options]).scale == scale


def test_two_scales_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        results.parser("x").parse_args(["--out", "a.json", "--quick", "--smoke"])
    assert "not allowed with" in capsys.readouterr().err


def test_a_result_says_where_it_was_measured_and_is_found_again(tmp_path: Path) -> None:
    out = tmp_path / "new" / "result.json"
    assert results.kept(out) == {}
    results.write(out, {"figures": {"a": 1.0}, "environment": "of before"})
    assert results.kept(out)["figures"] == {"a": 1.0}
    assert {"cpu", "cores", "commit", "date"} <= json.loads(out.read_text())["environment"].keys()
