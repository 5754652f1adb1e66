"""A second run for failed tests: only if they are few, and they must pass then."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import again

pytestmark = pytest.mark.unit


@pytest.fixture
def failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with tests that pass and one that fails."""
    (tmp_path / "test_it.py").write_text(
        "def test_passes(): pass\ndef test_also(): pass\ndef test_fails(): assert False\n"
    )
    monkeypatch.chdir(tmp_path)
    again.LAST_FAILED.parent.mkdir(parents=True)
    # Without other plug-ins, whose imports would take most of the inner run's time.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
    return tmp_path


def failing(*names: str) -> None:
    again.LAST_FAILED.write_text(json.dumps({f"test_it.py::{name}": True for name in names}))


def test_a_test_that_passes_now_is_named_as_a_race(
    failed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failing("test_passes")
    assert again.main([]) == 0
    assert "RACE: test_it.py::test_passes failed once" in capsys.readouterr().out


def test_a_test_that_fails_again_has_failed(failed: Path) -> None:
    failing("test_passes", "test_fails")
    assert again.main([]) == 1


def test_failures_of_one_file_count_once(failed: Path) -> None:
    """Its fixture may have failed."""
    failing("test_passes", "test_also")
    assert again.main(["--most", "1"]) == 0


def test_failures_of_many_files_are_no_race(
    failed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again.LAST_FAILED.write_text(json.dumps({"test_it.py::test_passes": True, "two.py::a": True}))
    assert again.main(["--most", "1"]) == 1
    assert "2 files failed" in capsys.readouterr().out


def test_a_run_that_failed_without_a_failed_test_has_failed(failed: Path) -> None:
    assert again.main([]) == 1
