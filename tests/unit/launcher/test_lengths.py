"""A prompt and an answer that would not fit are detected before any process starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from auricle.checkpoints.files import read_config
from auricle.config.settings import CommonSettings, PdWorkerSettings, ProcessorSettings
from auricle.core.errors import SettingsError
from auricle.launcher.config import load_config, settings_for
from auricle.launcher.lengths import check_lengths, check_own_lengths, longest
from auricle_testing.checkpoints.other_models import random_qwen2_audio
from auricle_testing.checkpoints.whisper import random_whisper
from auricle_testing.server import ROOT

pytestmark = pytest.mark.unit
DEMO = ROOT / "models/demo"


def graph(max_model_len: int, **common: object) -> dict[str, CommonSettings]:
    processor = ProcessorSettings.model_validate({"model": DEMO, **common})
    worker = PdWorkerSettings.model_validate(
        {"model": DEMO, "max_model_len": max_model_len, **common}
    )
    return {"Processor": processor, "PdWorker": worker}


def test_the_longest_segment_is_audio_answer_and_context() -> None:
    geometry = read_config(DEMO).geometry
    settings = ProcessorSettings(max_segment_seconds=24, context_tokens=100)
    # Three windows; 8 and 16 tokens a second; 200 characters of context; the template.
    expected = 3 * geometry.window_embeddings + 8 * 24 + 16 + 100 + 200 + 64
    assert longest(settings, geometry) == expected


def test_a_segment_that_does_not_fit_is_an_error_that_says_what_would_be_right() -> None:
    said = (
        r"PdWorker\.max_model_len is 2048, but a segment of Common\.max_segment_seconds \(300\) "
        r"may need (\d+) tokens: raise it to \1, or lower .*Common\.context_tokens \(512\)"
    )
    with pytest.raises(SettingsError, match=said) as refused:
        check_lengths(graph(2048, max_segment_seconds=300))
    needed = int(str(refused.value).partition("raise it to ")[2].partition(",")[0])
    check_lengths(graph(needed, max_segment_seconds=300))
    with pytest.raises(SettingsError):
        check_lengths(graph(needed - 1, max_segment_seconds=300))


def test_defaults_fit() -> None:
    check_lengths(graph(PdWorkerSettings().max_model_len))


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda p: p.stem)
def test_the_configs_fit(path: Path, tmp_path: Path) -> None:
    model = DEMO
    if "whisper" in load_config(path)["Common"]["model"]:
        random_whisper(model := tmp_path)
    sections = load_config(path, [f"--Common.model={model}"])
    names = ("Processor", "PdWorker")
    check_lengths({name: settings_for(name, sections, str(path)) for name in names})


def test_a_segment_is_no_longer_than_what_an_encoder_takes_at_once(tmp_path: Path) -> None:
    random_qwen2_audio(tmp_path)
    check_lengths(graph(4096, model=tmp_path, max_segment_seconds=30))
    with pytest.raises(SettingsError, match=r"max_segment_seconds is 31, but .* at most 30 s"):
        check_lengths(graph(4096, model=tmp_path, max_segment_seconds=31))


def test_a_checkpoint_that_cannot_be_read_is_left_to_the_processes(tmp_path: Path) -> None:
    check_lengths(graph(256, model=tmp_path))


def test_a_process_that_is_started_alone_looks_at_the_others_section(tmp_path: Path) -> None:
    path = tmp_path / "my.yaml"
    path.write_text(
        f"Common: {{model: {DEMO}, max_segment_seconds: 200}}\nPdWorker: {{max_model_len: 2048}}\n"
    )
    sections = load_config(path)
    for name in ("PdWorker", "Processor"):
        with pytest.raises(SettingsError, match=r"Common\.max_segment_seconds \(200\) may need"):
            check_own_lengths(name, sections, str(path))
    check_own_lengths("EncodeWorker", sections, str(path))


def test_more_positions_than_the_decoder_has_are_refused() -> None:
    positions = read_config(DEMO).geometry.max_positions
    check_lengths(graph(positions))
    said = rf"PdWorker\.max_model_len is {positions + 1}, but .* has {positions} positions"
    with pytest.raises(SettingsError, match=said):
        check_lengths(graph(positions + 1))
