"""The container images: nobody runs as root, and no secret gets into a layer."""

from __future__ import annotations

import re

import pytest

from tests.server import ROOT

pytestmark = pytest.mark.unit
LINES = [
    line.strip()
    for line in (ROOT / "deploy/docker/Dockerfile").read_text().replace("\\\n", " ").splitlines()
    if line.strip() and not line.lstrip().startswith("#")
]
STAGES = [n for n, line in enumerate(LINES) if line.startswith("FROM")]


def stage(name: str) -> list[str]:
    """The lines of a stage, those of the stages it is built on first."""
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
