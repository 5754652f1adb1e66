"""The systemd unit and the compose file use valid commands and settings."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from auricle.cli.page import commands
from auricle.config.settings import CommonSettings
from auricle.launcher.config import load_config
from auricle.tools.checking.config import findings
from auricle_testing.server import READY_SECONDS, ROOT

pytestmark = pytest.mark.unit
UNIT = ROOT / "deploy/systemd/auricle.service"
COMPOSE = ROOT / "deploy/docker/compose.yaml"
PROGRAM = "/opt/auricle/.venv/bin/auricle"
# A launcher stops frontends, then processors and planner, then workers.
DRAINS = 3


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT)
    return parser


def parsed(words: list[str]) -> dict[str, Any]:
    """The parameters of an `auricle` command line, which must be valid for the command."""
    assert words[0].rpartition("/")[2] == "auricle"
    command = dict(commands())[f"auricle {words[1]}"]
    return dict(command.make_context(words[1], words[2:]).params)


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    # It checks for the program and the user, which the installation of the service creates.
    text = UNIT.read_text().replace(PROGRAM, sys.executable).replace("/opt/auricle", str(ROOT))
    copy = tmp_path / UNIT.name
    copy.write_text(re.sub(r"^(User|Group)=.*$", "", text, flags=re.MULTILINE))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(copy)],
        capture_output=True,
        text=True,
        timeout=READY_SECONDS,
        check=False,
    )
    said = [line for line in done.stderr.splitlines() if "auricle.service" in line]
    assert (done.returncode, said) == (0, []), done.stderr


def test_the_unit_runs_commands_that_there_are() -> None:
    service = unit()["Service"]
    started, checked = (
        parsed(shlex.split(service["ExecStart"])),
        shlex.split(service["ExecStartPre"]),
    )
    assert started["graph"] == "graphs.e_pd:Frontend"
    assert started["config"] == parsed(checked)["file"]


def test_what_stops_the_service_waits_until_it_has_drained() -> None:
    seconds = CommonSettings().drain_seconds
    assert float(unit()["Service"]["TimeoutStopSec"]) > DRAINS * seconds
    for service in compose()["services"].values():
        assert float(service["stop_grace_period"].removesuffix("s")) > DRAINS * seconds


def compose() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return content


@pytest.mark.parametrize("name", ["auricle", "auricle-gpu"])
def test_a_container_runs_a_graph_with_settings_that_are_right(name: str) -> None:
    given = parsed(compose()["services"][name]["command"])
    config = ROOT / given["config"]
    sections = load_config(config, given["overrides"])
    assert findings(config, sections, files=False) == []
    assert sections["Frontend"]["host"] == "0.0.0.0"


@pytest.mark.parametrize("name", ["auricle", "auricle-gpu"])
def test_a_container_is_built_from_what_is_there(name: str) -> None:
    service = compose()["services"][name]
    build = service["build"]
    dockerfile = (COMPOSE.parent / build["context"] / build["dockerfile"]).resolve()
    assert f"FROM runtime AS {build['target']}\n" in dockerfile.read_text()
    assert service["image"] == f"auricle:{build['target']}"
    (port,) = service["ports"]
    assert port == "127.0.0.1:8080:8080"
    assert "http://127.0.0.1:8080/health" in service["healthcheck"]["test"][-1]
    compile(service["healthcheck"]["test"][-1], "healthcheck", "exec")


def test_docker_compose_takes_the_file() -> None:
    asked = ["docker", "compose", "version"]
    docker = shutil.which("docker")
    if docker is None or subprocess.run(asked, capture_output=True, check=False).returncode:
        pytest.skip("Docker Compose is not installed")
    command = ["docker", "compose", "-f", str(COMPOSE), "--profile", "gpu", "config", "--quiet"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=READY_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["auricle", "auricle-gpu"])
def test_a_container_has_bounds_of_memory_processes_and_disk(name: str) -> None:
    service = compose()["services"][name]
    given = parsed(service["command"])
    sections = load_config(ROOT / given["config"], given["overrides"])
    (temporary,) = service["tmpfs"]
    found = re.fullmatch(r"/tmp:size=(\d+)g,mode=1777,exec", temporary)
    assert found is not None
    assert service["environment"]["HOME"] == "/tmp"
    # Room for as much again: compiled kernels, and uploads that are about to be deleted.
    size = int(found[1])
    assert size << 30 >= 2 * sections["Frontend"]["max_stored_upload_bytes"]
    shared = int(service["shm_size"].removesuffix("gb"))
    assert int(service["mem_limit"].removesuffix("gb")) > size + shared
    assert service["read_only"]
    assert service["pids_limit"] > 1_000


def test_the_unit_has_bounds_of_memory_and_processes() -> None:
    service = unit()["Service"]
    assert service["MemoryMax"] == "90%"
    assert int(service["TasksMax"]) > 1_000
    assert service["PrivateTmp"] == "yes"
