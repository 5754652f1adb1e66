"""The container images: they do not run as root, and no secret gets into a layer."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

from auricle_testing.server import ROOT

pytestmark = pytest.mark.unit
LINES = [
    line.strip()
    for line in (ROOT / "deploy/docker/Dockerfile").read_text().replace("\\\n", " ").splitlines()
    if line.strip() and not line.lstrip().startswith("#")
]
STAGES = [n for n, line in enumerate(LINES) if line.startswith("FROM")]


def stage(name: str) -> list[str]:
    """The lines of a stage, after the lines of its base stages."""
    begin = next(n for n in STAGES if LINES[n].endswith(f" AS {name}"))
    end = next((n for n in STAGES if n > begin), len(LINES))
    base = LINES[begin].split()[1]
    return [*([] if base.startswith("$") else stage(base)), *LINES[begin:end]]


@pytest.mark.parametrize("image", ["cpu", "gpu"])
def test_an_image_runs_as_a_user_that_kubernetes_sees_is_not_root(image: str) -> None:
    lines = stage(image)
    users = [line.split()[1] for line in lines if line.startswith("USER")]
    assert users[-1] == "10001:10001"
    assert any("useradd --uid 10001" in line for line in lines)


def test_only_named_things_are_copied_and_nothing_secret_is_an_argument() -> None:
    for line in LINES:
        word, *rest = line.split()
        if word in ("COPY", "ADD"):
            assert word == "COPY"
            assert not {".", "./", "*"} & set(rest[:-1]), line
        if word in ("ARG", "ENV"):
            assert not re.search(r"key|secret|token|password", line, re.IGNORECASE), line


def test_files_that_may_hold_secrets_are_not_sent_to_the_builder() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert {".git", "**/*.pem", "**/*.key", "**/keys*.yaml"} <= set(ignored)


@pytest.fixture
def building(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The scripts are not a package, because they must run with any Python."""
    monkeypatch.syspath_prepend(ROOT / "deploy/docker")
    return importlib.import_module("building")


def test_pip_is_set_in_the_build_as_on_this_machine(
    building: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    packages = tmp_path / "packages"
    (packages / "simple").mkdir(parents=True)
    config = tmp_path / "pip.conf"
    config.write_text(f"[global]\nextra-index-url = file://{packages}/simple\n  https://one.test\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_TIMEOUT", "7")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    settings = building.pip_settings()
    assert settings["global.find-links"] == str(tmp_path) and settings["global.timeout"] == "7"
    assert "global.config-file" not in settings and "global.no-cache-dir" not in settings
    written = building.as_file(settings)
    assert f"extra-index-url = file://{packages}/simple\n    https://one.test\n" in written
    assert written.startswith("[global]\n")
    # The folders include the packages next to the index, and all exist on this machine.
    assert {tmp_path, packages} <= set(building.folders(settings))
    assert all(folder.exists() for folder in building.folders(settings))


def test_pip_needs_no_settings(building: ModuleType) -> None:
    assert building.as_file({}) == "" and building.folders({}) == []


def test_the_base_is_the_python_that_the_dockerfile_asks_for(building: ModuleType) -> None:
    (line,) = (line for line in LINES if line.startswith("ARG PYTHON="))
    assert line.startswith("ARG PYTHON=python:3.11.") and line.endswith(building.SUITE)


def test_words_are_compared_in_order(building: ModuleType) -> None:
    check = importlib.import_module("check")
    said = list("abcde")
    assert check.alike(list("abcde"), said) == 1.0
    assert check.alike(list("abcdx"), said) >= check._LEAST_LIKENESS
    assert check.alike(list("abxye"), said) < check._LEAST_LIKENESS
    assert check.alike([], said) == 0.0
