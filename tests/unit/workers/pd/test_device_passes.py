"""A PD worker's passes on a CPU and on a GPU, and the checks before vLLM starts."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from auricle.checkpoints.files import open_checkpoint, read_config
from auricle.checkpoints.survey import read_parts
from auricle.config.settings import PdWorkerSettings, TranslateWorkerSettings
from auricle.core.errors import SettingsError
from auricle.process.device_faults import Gpu
from auricle.workers.pd.vllm.device_memory import (
    check_runner,
    check_share,
    kv_block_bytes,
    passes_on,
    runs_eagerly,
    with_settings,
)
from auricle.workers.pd.vllm.options import PassOptions
from auricle.workers.pd.vllm.start import VllmKind, engine_options, of_decoder
from auricle_testing.server import ROOT

pytestmark = pytest.mark.unit
GIB = 1 << 30
# Qwen3-ASR's decoders, both sizes.
LAYERS: dict[str, Any] = {
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 1024,
}


def pd(**values: object) -> PdWorkerSettings:
    return PdWorkerSettings.model_validate(values)


def test_on_a_cpu_vllm_runs_as_it_always_did() -> None:
    assert runs_eagerly(pd(), "cpu")
    assert passes_on("cpu", pd()) == PassOptions()
    assert PassOptions().max_batched_tokens is None  # vLLM's own default


def test_on_a_gpu_all_passes_are_graphs_and_take_many_windows() -> None:
    assert not runs_eagerly(pd(), "gpu")
    passes = passes_on("gpu", pd())
    assert (passes.compilation_mode, passes.cudagraph_mode) == ("none", "full")
    assert (passes.max_batched_tokens, passes.max_capture_size) == (8192, 1024)
    assert passes.attention_backend is None
    assert not passes.async_scheduling


@pytest.mark.parametrize(
    ("capability", "backend"),
    [
        ((8, 0), "TRITON_ATTN"),
        ((8, 9), "TRITON_ATTN"),
        ((9, 0), None),
        ((10, 0), None),
        ((12, 0), "TRITON_ATTN"),
        (None, None),
    ],
)
def test_gpus_without_flash_attention_3_have_graphs_of_any_drafts(
    capability: tuple[int, int] | None, backend: str | None
) -> None:
    assert passes_on("gpu", pd(), capability).attention_backend == backend
    chosen = pd(attention_backend="FLASH_ATTN")
    assert passes_on("gpu", chosen, capability).attention_backend == "FLASH_ATTN"


@pytest.mark.parametrize(("capability", "backend"), [((8, 9), "TRITON_ATTN"), ((9, 0), None)])
def test_translators_choose_attention_as_decoders_do(
    capability: tuple[int, int], backend: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auricle.workers.pd.vllm.start.device_of_vllm", lambda: "gpu")
    card = Gpu("a card", 24 * GIB, capability)
    monkeypatch.setattr("auricle.workers.pd.vllm.start.visible_gpus", lambda: [card])
    for settings in (pd(), TranslateWorkerSettings()):
        passes = of_decoder(settings, ROOT).passes
        assert (passes.attention_backend, passes.cudagraph_mode) == (backend, "full")


def test_what_is_set_holds_on_a_gpu() -> None:
    settings = pd(
        max_batched_tokens=4096,
        compilation_mode="vllm_compile",
        cudagraph_mode="full_and_piecewise",
        cudagraph_capture_sizes=[8, 16],
        attention_backend="TRITON_ATTN",
        draft_tokens=0,
        async_scheduling=True,
    )
    assert passes_on("gpu", settings) == PassOptions(
        max_batched_tokens=4096,
        compilation_mode="vllm_compile",
        cudagraph_mode="full_and_piecewise",
        capture_sizes=(8, 16),
        attention_backend="TRITON_ATTN",
        async_scheduling=True,
    )
    assert runs_eagerly(pd(enforce_eager=True), "gpu")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"cudagraph_mode": "full"}, r"PdWorker\.cudagraph_mode is full, which needs a GPU"),
        ({"cudagraph_capture_sizes": [8]}, r"cudagraph_capture_sizes are set, which needs a GPU"),
        ({"async_scheduling": True, "draft_tokens": 0}, "async_scheduling is on, which needs a G"),
    ],
)
def test_a_cpu_has_no_graphs_and_nothing_to_schedule_ahead_of(
    values: dict[str, object], said: str
) -> None:
    with pytest.raises(SettingsError, match=said + r".*requirements/gpu\.txt"):
        passes_on("cpu", pd(**values))
    passes_on("gpu", pd(**values))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"enforce_eager": True, "cudagraph_mode": "full"}, "enforce_eager excludes .* CUDA gra"),
        ({"enforce_eager": True, "compilation_mode": "vllm_compile"}, "compilation_mode is vllm"),
        ({"cudagraph_mode": "piecewise"}, "piecewise needs compilation_mode vllm_compile"),
        ({"cudagraph_mode": "none", "cudagraph_capture_sizes": [8]}, "but cudagraph_mode is none"),
        ({"async_scheduling": True}, "draft_tokens 8, .* set draft_tokens to 0"),
        ({"attention_backend": "flash attention"}, "attention_backend"),
        ({"max_batched_tokens": 64}, "max_batched_tokens"),
        ({"cudagraph_capture_sizes": [0]}, "cudagraph_capture_sizes"),
    ],
)
def test_settings_that_exclude_each_other_are_named(values: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        pd(**values)


def test_the_runner_without_our_drafts_is_refused() -> None:
    for harmless in ({}, {"VLLM_USE_V2_MODEL_RUNNER": "0"}, {"VLLM_USE_V2_MODEL_RUNNER": ""}):
        check_runner(pd(), harmless)
    forced = {"VLLM_USE_V2_MODEL_RUNNER": "1"}
    with pytest.raises(SettingsError, match=r"PdWorker\.draft_tokens is 8, but VLLM_USE_V2"):
        check_runner(pd(), forced)
    check_runner(pd(draft_tokens=0), forced)


def test_a_block_has_keys_and_values_of_all_layers() -> None:
    settings = pd(dtype="bfloat16", block_size=16)
    assert kv_block_bytes(LAYERS, settings) == 112 * 1024 * 16
    demo = read_config(ROOT / "models/demo").text_config
    assert kv_block_bytes(demo, pd(dtype="float32")) > 0


def test_processes_that_share_a_gpu_order_no_more_than_their_part() -> None:
    block = 112 * 1024 * 16
    shared = {"processes_per_device": 3, "gpu_memory_share": 0.75}
    check_share(pd(kv_blocks=8000, **shared), block, GIB, 80 * GIB)
    check_share(pd(**shared), block, GIB, 80 * GIB)  # vLLM takes the remaining memory
    said = (
        r"PdWorker\.kv_blocks is 24000, which with the weights takes 42\.0 GiB, but a process has "
        r"20\.0 GiB \(gpu_memory_share 0\.75 / processes_per_device 3 of 80\.0 GiB\): set it to at "
        r"most (\d+), or raise PdWorker\.gpu_memory_share"
    )
    with pytest.raises(SettingsError, match=said) as refused:
        check_share(pd(kv_blocks=24_000, **shared), block, GIB, 80 * GIB)
    most = int(str(refused.value).partition("at most ")[2].partition(",")[0])
    check_share(pd(kv_blocks=most, **shared), block, GIB, 80 * GIB)
    with pytest.raises(SettingsError):
        check_share(pd(kv_blocks=most + 1, **shared), block, GIB, 80 * GIB)


def test_what_vllm_says_of_memory_is_told_with_the_settings_that_decide() -> None:
    full = "CUDA out of memory. Tried to allocate 2.00 GiB."
    settings = pd(processes_per_device=3, gpu_memory_share=0.75, kv_blocks=8000)
    said = with_settings(full, settings, "gpu")
    assert said.startswith(f"{full} (Of PdWorker: this process may have gpu_memory_share 0.75 / ")
    assert "processes_per_device 3 of the GPU, kv_blocks is 8000, max_model_len 2048" in said
    assert "kv_cache_gib is 1, kv_blocks is not set" in with_settings(full, pd(), "cpu")
    other = "unknown attention backend"
    assert with_settings(other, settings, "gpu") == other


def test_memory_is_compared_with_that_of_this_process_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = open_checkpoint(ROOT / "models/demo")
    gpus = [Gpu("small", 4 << 20)]
    monkeypatch.setattr("auricle.workers.pd.vllm.start.visible_gpus", lambda: gpus)
    VllmKind().check_memory(pd(kv_blocks=8), checkpoint)  # vLLM is built for CPUs
    monkeypatch.setattr("auricle.workers.pd.vllm.start.device_of_vllm", lambda: "gpu")
    with pytest.raises(SettingsError, match=r"PdWorker\.kv_blocks is 8, .* set it to at most 0"):
        VllmKind().check_memory(pd(kv_blocks=8), checkpoint)
    for fits in (Gpu("large", GIB), Gpu("with the machine's memory", None)):
        gpus[:] = [fits]
        VllmKind().check_memory(pd(kv_blocks=8), checkpoint)


def test_weights_are_the_decoders_as_they_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = open_checkpoint(ROOT / "models/demo")
    settings = pd(kv_blocks=8, gpu_memory_share=1, dtype="float32")
    _, decoder = read_parts(checkpoint)
    needed = 4 * decoder.parameters + 8 * kv_block_bytes(checkpoint.text_config, settings)
    gpus = [Gpu("just enough", needed)]
    monkeypatch.setattr("auricle.workers.pd.vllm.start.visible_gpus", lambda: gpus)
    monkeypatch.setattr("auricle.workers.pd.vllm.start.device_of_vllm", lambda: "gpu")
    VllmKind().check_memory(settings, checkpoint)
    gpus[:] = [Gpu("too small", needed - 1)]
    with pytest.raises(SettingsError, match="at most 7"):
        VllmKind().check_memory(settings, checkpoint)


def test_the_options_of_an_engine_are_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = open_checkpoint(ROOT / "models/demo")
    monkeypatch.setattr("auricle.workers.pd.vllm.start.device_of_vllm", lambda: "gpu")
    settings = pd(processes_per_device=2, gpu_memory_share=0.5, max_requests=7, kv_blocks=9)
    options = engine_options(settings, checkpoint, "ipc://kv")
    assert options.gpu_memory_share == 0.25
    assert (options.max_num_seqs, options.kv_blocks, options.kv_events) == (7, 9, "ipc://kv")
    assert not options.enforce_eager
    assert options.passes.cudagraph_mode == "full"
    assert options.passes.attention_backend is None
    gpus = [Gpu("NVIDIA L4", 24 * GIB, (8, 9))]
    monkeypatch.setattr("auricle.workers.pd.vllm.start.visible_gpus", lambda: gpus)
    assert engine_options(settings, checkpoint, "").passes.attention_backend == "TRITON_ATTN"
