"""Whisper's published weights, as in `make demo`, transcribe ordinary speech."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jiwer
import pytest
from transformers.models.whisper.english_normalizer import EnglishTextNormalizer

from auricle_testing.commands import auricle
from auricle_testing.server import READY_SECONDS, ROOT, Server, serving
from tests.document_commands import Example, examples, shell

pytestmark = [pytest.mark.integration, pytest.mark.deployment]
NAME, CONFIG = "whisper-base", "configs/whisper.yaml"
RECORDING = ROOT / "examples/flight.flac"
_NOT_REACHED = 3  # `auricle models pull` could reach no source of the model
_SERVER = "127.0.0.1:8080"  # the documents' address of the server


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the model; it links to the machine's own copy if there is one."""
    own = os.environ.get("AURICLE_TEST_MODELS")
    folder = Path(own) if own else tmp_path_factory.mktemp("models")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AURICLE_MODELS", str(folder))
        done = subprocess.run(
            [sys.executable, "-m", "auricle", "models", "pull", NAME],
            timeout=READY_SECONDS,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == _NOT_REACHED:
            pytest.skip(f"{NAME} cannot be had: {done.stderr}")
        assert done.returncode == 0, done.stderr
        yield folder


@pytest.fixture(scope="module")
def hearing(models: Path) -> Iterator[Server]:
    with serving(config=CONFIG) as server:
        yield server


def word_errors(text: str) -> float:
    plain = EnglishTextNormalizer({})
    said = " ".join(RECORDING.with_suffix(".txt").read_text().split())
    return float(jiwer.wer(plain(said), plain(text)))


@pytest.mark.parametrize("options", [[], ["--live"]], ids=["recording", "live"])
def test_a_voice_is_heard_that_says_any_words(hearing: Server, options: list[str]) -> None:
    done = auricle("transcribe", str(RECORDING), "--url", hearing.url, "--json", *options)
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    assert word_errors(last["text"]) <= 0.1


@pytest.mark.parametrize("example", examples(NAME), ids=lambda e: f"{e.page}: {e.command[:40]}")
def test_a_command_of_a_document_does_what_it_says(example: Example, hearing: Server) -> None:
    here = hearing.url.removeprefix("http://")
    done = shell(example.command.replace(_SERVER, here), ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert example.matches(done.stdout), f"{done.stdout!r} is not {example.output!r}"
