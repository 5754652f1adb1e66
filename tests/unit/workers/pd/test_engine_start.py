"""The engine that a PD worker starts, and the checks before the start."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from auricle.checkpoints.files import open_checkpoint
from auricle.checkpoints.geometry import kv_values_per_token
from auricle.checkpoints.text_model import end_tokens
from auricle.config.settings import PdWorkerSettings, TranslateWorkerSettings
from auricle.core.errors import CheckpointError, SettingsError
from auricle.workers.pd import engine_start
from auricle.workers.pd.ctranslate2 import start as ctranslate2_start
from auricle.workers.pd.ctranslate2.start import CTranslate2Kind
from auricle.workers.pd.engine import EngineCapabilities
from auricle.workers.pd.engine_start import checked_kind, text_kind
from auricle.workers.pd.sglang import start as sglang_start
from auricle.workers.pd.sglang.start import SglangKind
from auricle.workers.pd.transformers.start import TransformersKind, kv_slots
from auricle.workers.pd.vllm import start
from auricle.workers.pd.vllm.start import VllmKind
from auricle_testing.server import ROOT

pytestmark = pytest.mark.unit


def pd(**values: object) -> PdWorkerSettings:
    return PdWorkerSettings.model_validate(values)


def test_the_settings_name_the_engine() -> None:
    assert isinstance(checked_kind(pd()), VllmKind)
    assert isinstance(checked_kind(pd(engine="transformers")), TransformersKind)
    with pytest.raises(ValidationError, match="'vllm', 'transformers', 'sglang' or 'ctranslate2'"):
        pd(engine="other")


def test_where_vllm_is_not_installed_it_is_said_what_would_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(start, "find_spec", {"torch": object()}.get)
    said = "PdWorker runs vLLM, which is not installed: install requirements/cpu.txt, or "
    for refuses in (lambda: checked_kind(pd()), lambda: VllmKind().built_for(pd())):
        with pytest.raises(
            SettingsError, match=f"{said}.*, or set PdWorker.engine to transformers"
        ):
            refuses()
    checked_kind(pd(engine="transformers"))
    with pytest.raises(SettingsError, match=r"TranslateWorker runs vLLM, .* with GPUs$"):
        text_kind("vllm").check_device(
            TranslateWorkerSettings(translate_model=ROOT / "models/demo")
        )


def test_no_engine_is_imported_before_it_is_chosen() -> None:
    """A machine without vLLM can run another engine."""
    tree = ast.parse(Path(engine_start.__file__).read_text())
    homes = {
        f"auricle.workers.pd.{name}" for name in ("vllm", "transformers", "sglang", "ctranslate2")
    }
    at_once = {n.module for n in tree.body if isinstance(n, ast.ImportFrom) and n.module}
    assert not any(module.startswith(home) for module in at_once for home in homes)
    inside = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module}
    assert all(any(module.startswith(home) for module in inside) for home in homes)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"placement": "kv"}, "placement is kv, but engine transformers publishes no KV events"),
        ({"cudagraph_mode": "full"}, "cudagraph_mode is full, a setting of vLLM"),
        ({"attention_backend": "FLASH_ATTN"}, "attention_backend is FLASH_ATTN"),
        ({"max_batched_tokens": 4096}, "max_batched_tokens is 4096"),
        ({"enforce_eager": True}, "enforce_eager is True"),
        ({"gpu_memory_share": 0.5}, r"gpu_memory_share is 0\.5"),
    ],
)
def test_what_only_vllm_has_is_refused_with_another_engine(
    values: dict[str, object], said: str
) -> None:
    pd(**values)
    with pytest.raises(ValidationError, match=said):
        pd(engine="transformers", **values)


def test_what_sglang_lacks_is_refused() -> None:
    with pytest.raises(ValidationError, match="engine sglang publishes no KV events"):
        pd(engine="sglang", placement="kv")
    with pytest.raises(ValidationError, match="cudagraph_mode is full, a setting of vLLM"):
        pd(engine="sglang", cudagraph_mode="full")
    assert pd(engine="sglang", gpu_memory_share=0.5).gpu_memory_share == 0.5
    demo = open_checkpoint(ROOT / "models/demo")
    attends = replace(demo.architecture, decoder="WhisperForConditionalGeneration")
    whisper = replace(demo, architecture=attends)
    said = "runs Qwen3ForCausalLM, .*, but .* has Whisper.*: set engine to vllm or transformers"
    with pytest.raises(SettingsError, match=said):
        SglangKind().check_memory(pd(engine="sglang"), whisper)
    with pytest.raises(
        SettingsError, match=r"PdWorker\.max_model_len is 9999999, but .* positions"
    ):
        SglangKind().check_memory(pd(engine="sglang", max_model_len=9_999_999), demo)


def test_what_ctranslate2_lacks_is_refused() -> None:
    with pytest.raises(ValidationError, match="engine ctranslate2 publishes no KV events"):
        pd(engine="ctranslate2", placement="kv")
    with pytest.raises(ValidationError, match="dtype is bfloat16, but engine ctranslate2 reads"):
        pd(engine="ctranslate2", dtype="bfloat16")
    with pytest.raises(ValidationError, match="compute_type is int8, a setting of ctranslate2"):
        pd(engine="vllm", compute_type="int8")
    demo = open_checkpoint(ROOT / "models/demo")
    with pytest.raises(SettingsError, match=r"runs Whisper, but .* has Qwen3-ASR: set engine to"):
        CTranslate2Kind().check_memory(pd(engine="ctranslate2"), demo)
    attends = replace(demo.architecture, audio="cross_attention")
    whisper = replace(
        demo, architecture=attends, geometry=replace(demo.geometry, max_positions=448)
    )
    with pytest.raises(SettingsError, match=r"max_model_len is 2048, but .* has 448 positions"):
        CTranslate2Kind().check_memory(pd(engine="ctranslate2"), whisper)
    CTranslate2Kind().check_memory(pd(engine="ctranslate2", max_model_len=448), whisper)


def test_where_ctranslate2_is_not_installed_it_is_said_what_would_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ctranslate2_start, "find_spec", lambda _: None)
    with pytest.raises(SettingsError, match=r"install requirements/cpu\.txt or light\.txt, or set"):
        checked_kind(pd(engine="ctranslate2"))


def test_where_sglang_is_not_installed_it_is_said_what_would_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sglang_start, "find_spec", lambda _: None)
    with pytest.raises(SettingsError, match=r"install requirements/sglang-cpu\.txt, or .* set"):
        checked_kind(pd(engine="sglang"))
    translates = TranslateWorkerSettings(engine="sglang")
    with pytest.raises(SettingsError, match=r"set TranslateWorker\.engine to vllm$"):
        text_kind(translates.engine).check_device(translates)


def test_a_translate_worker_takes_no_engine_without_text_models() -> None:
    with pytest.raises(ValidationError, match="'vllm' or 'sglang'"):
        TranslateWorkerSettings.model_validate({"engine": "transformers"})
    # Another pool's placement is not its own.
    TranslateWorkerSettings(engine="sglang", placement="kv")
    with pytest.raises(ValidationError, match="enforce_eager is True, a setting of vLLM"):
        TranslateWorkerSettings(engine="sglang", enforce_eager=True)


def test_kv_events_are_asked_of_an_engine_that_declares_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Silent(VllmKind):
        name = "silent"

        def capabilities(self, settings: PdWorkerSettings) -> EngineCapabilities:
            return EngineCapabilities(True, True, True, kv_events=False)

    monkeypatch.setattr(engine_start, "engine_kind", lambda _engine: Silent())
    with pytest.raises(SettingsError, match="needs KV events, but silent publishes none"):
        checked_kind(pd(placement="kv"))
    checked_kind(pd())


def test_an_engine_declares_what_its_settings_leave_it() -> None:
    assert VllmKind().capabilities(pd()) == EngineCapabilities(True, True, True, True)
    less = pd(draft_tokens=0, limit_reuse=False)
    assert VllmKind().capabilities(less) == EngineCapabilities(False, False, True, True)
    plain = EngineCapabilities(drafts=False, limited_reuse=True, logprobs=True, kv_events=False)
    assert TransformersKind().capabilities(pd(engine="transformers")) == plain
    sglang = EngineCapabilities(drafts=False, limited_reuse=False, logprobs=True, kv_events=False)
    assert SglangKind().capabilities(pd(engine="sglang")) == sglang
    assert CTranslate2Kind().capabilities(pd(engine="ctranslate2")) == sglang


def test_the_kv_cache_has_slots_of_whole_prompts() -> None:
    checkpoint = open_checkpoint(ROOT / "models/demo")
    per_token = 4 * kv_values_per_token(checkpoint.text_config)
    settings = pd(engine="transformers", dtype="float32", max_model_len=1024)
    assert kv_slots(settings, checkpoint) == (1 << 30) // per_token // 1024
    blocks = settings.model_copy(update={"kv_blocks": 64, "block_size": 32})
    assert kv_slots(blocks, checkpoint) == 2
    small = settings.model_copy(update={"kv_blocks": 31, "block_size": 32})
    said = r"PdWorker\.kv_blocks is 31, of 32 tokens each, which is room for 992 tokens, but"
    with pytest.raises(SettingsError, match=said):
        TransformersKind().check_memory(small, checkpoint)


@pytest.mark.parametrize(
    ("content", "ends"),
    [({"eos_token_id": [3, 5]}, {3, 5}), ({"eos_token_id": 7}, {7}), ({}, set())],
)
def test_a_checkpoint_names_the_tokens_that_end_an_output(
    tmp_path: Path, content: object, ends: set[int]
) -> None:
    assert end_tokens(tmp_path) == set()
    (tmp_path / "generation_config.json").write_text(json.dumps(content))
    assert end_tokens(tmp_path) == ends


@pytest.mark.parametrize(
    "content", ["[", "[1]", '{"eos_token_id": "end"}', '{"eos_token_id": [true]}']
)
def test_end_tokens_that_are_none_areengine_kind(tmp_path: Path, content: str) -> None:
    (tmp_path / "generation_config.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"generation_config\.json"):
        end_tokens(tmp_path)
