"""Every published measurement has a short form, and what runs it tells failure from success."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import psutil
import pytest

from benchmarks import results
from benchmarks.load.groups import GROUPS as LOAD_GROUPS
from benchmarks.smoke.__main__ import run
from benchmarks.smoke.commands import SHORT, Short
from benchmarks.smoke.published import commands, published
from benchmarks.streaming.__main__ import GROUPS as STREAMING_GROUPS
from tests.server import ROOT

pytestmark = pytest.mark.unit
MODULE = re.compile(r"(?:python -m )?((?:benchmarks|models)\.[\w.]+) ")


def test_every_published_command_has_a_short_form_and_every_short_form_a_published_command() -> (
    None
):
    covered = {command for short in SHORT for command in short.stands_for}
    assert published(ROOT) == covered


@pytest.mark.parametrize(
    ("module", "groups"),
    [("benchmarks.load", LOAD_GROUPS), ("benchmarks.streaming", STREAMING_GROUPS)],
)
def test_every_group_of_a_benchmark_is_run(module: str, groups: dict[str, object]) -> None:
    run_ones = {
        found.group(1)
        for short in SHORT
        if (found := re.search(rf"^{module} .*--only (\S+)", short.arguments))
    }
    assert run_ones == set(groups)


@pytest.mark.parametrize("command", sorted(published(ROOT) | {short.arguments for short in SHORT}))
def test_the_options_of_a_command_are_known_to_its_module(command: str) -> None:
    if (found := MODULE.match(f"{command} ")) is None:
        return  # make or pytest
    spec = importlib.util.find_spec(found.group(1))
    assert spec is not None
    if spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{found.group(1)}.__main__")
    assert spec is not None and spec.origin is not None
    source = Path(spec.origin).read_text()
    if "results.parser(" in source:
        source += Path(results.__file__).read_text()
    for option in re.findall(r"--[a-z0-9-]+", command):
        assert f'"{option}"' in source


def test_commands_are_found_in_spans_and_blocks_however_they_are_broken() -> None:
    document = (
        "`make bench-env && python -m benchmarks.a --out FILE\n--quick` and `python -m\n"
        "benchmarks.b`\n```\n.venv/bin/python -m benchmarks.c --n 1   # some words\n```\n"
    )
    assert commands(document) == {
        "make bench-env",
        "python -m benchmarks.a --out FILE --quick",
        "python -m benchmarks.b",
        "python -m benchmarks.c --n 1",
    }


def test_a_command_that_ends_well_is_ok_and_one_that_does_not_says_how(tmp_path: Path) -> None:
    assert run(Short("this", 60, ()), tmp_path / "good.log", tmp_path).why == ""
    assert "Zen of Python" in (tmp_path / "good.log").read_text()
    missing = Short("json.tool {out}/nothing.json", 60, ())
    assert run(missing, tmp_path / "bad.log", tmp_path).why.startswith("ended with status")
    assert "nothing.json" in (tmp_path / "bad.log").read_text()


def test_a_command_that_leaves_a_process_behind_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.server._GONE_SECONDS", 1.0)
    (tmp_path / "leaves.py").write_text(
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    )
    outcome = run(Short("cProfile {out}/leaves.py", 60, ()), tmp_path / "log", tmp_path)
    assert outcome.why.startswith("left running")


def test_a_command_that_hangs_is_ended_at_its_deadline_with_its_processes(tmp_path: Path) -> None:
    (tmp_path / "hangs.py").write_text(
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'],"
        " stdin=subprocess.PIPE)\n"
        "print(child.pid, flush=True)\n"
        "child.wait()\n"
    )
    log = tmp_path / "log"
    outcome = run(Short("cProfile {out}/hangs.py", 10, ()), log, tmp_path)
    assert outcome.why == "not done after 10 s"
    child = int(log.read_text().split()[0])
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == "zombie"
