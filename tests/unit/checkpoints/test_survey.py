"""`auricle models check`: a checkpoint and its memory, before any process loads it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from safetensors.torch import load_file, save_file

from auricle.checkpoints.files import open_checkpoint
from auricle.checkpoints.survey import Survey, room, survey
from auricle.cli import main
from auricle_testing.checkpoints.aligners import CLASSES, STEP_MS, as_transformers, random_aligner
from auricle_testing.checkpoints.whisper import random_whisper
from auricle_testing.server import ROOT

pytestmark = pytest.mark.unit
DEMO = ROOT / "models/demo"


@pytest.fixture(scope="module")
def demo() -> Survey:
    return survey(open_checkpoint(DEMO))


def test_every_parameter_is_of_one_part(demo: Survey) -> None:
    weights = load_file(DEMO / "model.safetensors")
    assert demo.encoder.parameters + demo.decoder.parameters == sum(
        tensor.numel() for tensor in weights.values()
    )
    assert demo.encoder.parameters == sum(
        tensor.numel() for name, tensor in weights.items() if "audio_tower" in name
    )
    assert demo.encoder.bytes == 2 * demo.encoder.parameters
    assert demo.decoder.dtypes == ("BF16",)


def test_memory_follows_the_geometry(demo: Survey) -> None:
    assert (demo.window_seconds, demo.window_embeddings) == (8.0, 104)
    assert demo.window_bytes == 104 * 192 * 2
    assert demo.kv_bytes_per_token == 2 * 3 * 2 * 64 * 2  # K and V, layers, heads, width, bytes


def test_a_larger_gpu_holds_more_and_a_small_one_nothing(demo: Survey) -> None:
    small, large, larger = (room(demo, gib, 0.85, 30.0) for gib in (3.0, 24.0, 80.0))
    assert (small.kv_tokens, small.segments, small.windows) == (0, 0, 0)
    assert 0 < large.segments < larger.segments
    assert larger.kv_tokens * demo.kv_bytes_per_token < 80 * (1 << 30)
    assert larger.segments * demo.segment_tokens(30.0) <= larger.kv_tokens
    assert room(demo, 80.0, 0.85, 15.0).segments > larger.segments


def test_whisper_takes_kv_for_30_s_however_short_the_audio(tmp_path: Path) -> None:
    random_whisper(tmp_path)
    found = survey(open_checkpoint(tmp_path))
    assert (found.attended, found.longest_seconds, found.max_positions) == (1500, 28.0, 448)
    assert found.segment_tokens(1.0) > 1500
    done = CliRunner().invoke(main, ["models", "check", str(tmp_path)])
    said = " ".join(done.stdout.split())
    assert "segments of at most 28 s" in said
    mib = 1500 * found.kv_bytes_per_token / (1 << 20)
    assert f"at most 448 tokens, and {mib:.0f} MiB a request for cross-attention" in said
    assert "open segments of 28 s" in said


def test_programs_can_read_it() -> None:
    done = CliRunner().invoke(main, ["models", "check", str(DEMO), "--json", "--gpu-memory", "24"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["languages"] == ["English"]
    assert [gpu["gib"] for gpu in told["gpus"]] == [24]


def test_people_can_read_it() -> None:
    done = CliRunner().invoke(main, ["models", "check", str(DEMO)])
    assert "8 s = 104 embeddings" in done.stdout
    assert "GPU, 80 GiB" in done.stdout


def test_what_cannot_be_served_is_one_clear_line(tmp_path: Path) -> None:
    shutil.copytree(DEMO, tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "config.json").read_text())
    config["thinker_config"]["text_config"]["hidden_size"] = 100
    (tmp_path / "config.json").write_text(json.dumps(config))
    done = CliRunner().invoke(main, ["models", "check", str(tmp_path)])
    assert (done.exit_code, done.stdout) == (1, "")
    assert "output_dim is 192 but text_config.hidden_size is 100" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_aligner_is_known_as_one(tmp_path: Path) -> None:
    aligner = random_aligner(tmp_path / "aligner")
    done = CliRunner().invoke(main, ["models", "check", str(aligner)])
    assert done.exit_code == 0, done.stderr
    assert f"{CLASSES} classes of {STEP_MS} ms: segments of at most 32 s" in done.stdout
    assert "English, Chinese" in done.stdout and "PD process" not in done.stdout
    as_transformers(aligner)
    done = CliRunner().invoke(main, ["models", "check", str(aligner), "--json"])
    assert json.loads(done.stdout)["times"] == {"classes": CLASSES, "step_ms": STEP_MS}
    assert json.loads(done.stdout)["format"] == "transformers"


def test_an_aligner_without_its_classifier_is_refused(tmp_path: Path) -> None:
    aligner = random_aligner(tmp_path / "aligner")
    weights = load_file(aligner / "model.safetensors")
    del weights["thinker.lm_head.weight"]
    save_file(weights, aligner / "model.safetensors")
    done = CliRunner().invoke(main, ["models", "check", str(aligner)])
    assert (done.exit_code, len(done.stderr.splitlines())) == (1, 1)
    assert "is not an aligner: its weights have no classifier" in done.stderr
