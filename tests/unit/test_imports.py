"""Every import of an environment is tested, and failures are classified."""

from __future__ import annotations

import sys
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest

from auricle_testing.server import ROOT
from requirements.imports import attempt, judge, modules, pins, tried

pytestmark = pytest.mark.unit


def package(folder: Path, name: str, *files: str) -> Distribution:
    """An installed package with these files."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    return Distribution.at(info)


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (["a/__init__.py", "a/b/__init__.py", "one.py"], ["a", "one"]),
        (["google/rpc/__init__.py", "google/api/__init__.py"], ["google.api", "google.rpc"]),
        (["fast.cpython-311-x86_64-linux-gnu.so", "fast.abi3.so"], ["fast"]),
        (["_private.py", "public.py", "tests/__init__.py"], ["public"]),
        (["_only.py"], ["_only"]),
        (["nvidia/cu13/lib/libcublas.so.13", "../../../bin/tool"], []),
    ],
)
def test_modules_are_found_by_their_files(
    tmp_path: Path, files: list[str], found: list[str]
) -> None:
    assert modules(package(tmp_path, "some", *files)) == found


@pytest.mark.parametrize(
    ("said", "state", "good"),
    [
        ("", "ok", True),
        ("ImportError: libcuda.so.1: cannot open shared object file", "needs a driver (", True),
        ("RuntimeError: Found no NVIDIA driver on your system", "needs a driver (", True),
        ("ModuleNotFoundError: No module named 'sklearn.base'", "needs sklearn, which is", True),
        ("ModuleNotFoundError: No module named 'numpy'", "ModuleNotFoundError", False),
        ("ImportError: libcudart.so.12: cannot open shared object", "ImportError: libc", False),
        ("ended with status -11", "ended with status -11", False),
    ],
)
def test_what_went_wrong_is_told_apart(said: str, state: str, good: bool) -> None:
    found = judge(said)
    assert found[0].startswith(state) and found[1] is good


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print('noise')", ""),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("import os; os.kill(os.getpid(), 9)", "ended with status -9"),
        ("import threading; threading.Event().wait()", "not done after 2 s"),
    ],
)
def test_an_import_ends_however_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, said: str
) -> None:
    (tmp_path / "tried_module.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    assert attempt("tried_module", 2.0) == said
    assert "tried_module" not in sys.modules


def test_a_package_that_is_not_as_locked_is_not_good() -> None:
    assert not tried("not-installed-anywhere", "1.0").good
    assert tried("numpy", "0.1").state.endswith("is installed, 0.1 is locked")
    assert tried("msgspec", distribution("msgspec").version).good


def test_all_of_a_lock_is_tried() -> None:
    lock = (ROOT / "requirements/gpu.txt").read_text()
    assert len(pins(lock)) == len(lock.splitlines()) and pins(lock)["torch"] == "2.14.0"
