"""Checks settings before vLLM starts, as its own errors take a minute, and starts it.

vLLM itself is imported by `begin`, or at the start of an engine.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from auricle.checkpoints.files import ModelCheckpoint
from auricle.checkpoints.survey import read_parts
from auricle.checkpoints.text_model import TextModel, check_positions
from auricle.config.settings import PdWorkerSettings, TranslateWorkerSettings
from auricle.config.workers import DecoderSettings
from auricle.core.errors import CheckpointError, ProcessFailed, SettingsError
from auricle.embeddings.layout import ITEM_BYTES
from auricle.embeddings.slab import Slab
from auricle.process.device_faults import check_driver, visible_gpus
from auricle.process.needs import check_compiler, modules_of
from auricle.workers.pd import vllm as plug_in
from auricle.workers.pd.engine import EngineCapabilities
from auricle.workers.pd.vllm import engine_server
from auricle.workers.pd.vllm.device_memory import (
    check_runner,
    check_share,
    device_of_vllm,
    kv_block_bytes,
    passes_on,
    runs_eagerly,
    with_settings,
)
from auricle.workers.pd.vllm.engine import VllmEngine, capabilities
from auricle.workers.pd.vllm.options import EngineOptions
from auricle.workers.pd.vllm.process import set_defaults


class VllmOnDevice:
    """The part of an engine kind for vLLM that is independent of the model."""

    name = "vLLM"

    def __init__(self) -> None:
        self._forks = False

    def libraries(self) -> Sequence[str]:
        """Return vLLM and the modules of our plug-in. Sets variables that vLLM reads."""
        set_defaults()
        late = ["vllm", "setproctitle", *modules_of(plug_in)]
        return [*late, "pynvml"] if device_of_vllm() == "gpu" else late

    def built_for(self, settings: DecoderSettings) -> str:
        """Return the device in words. Raises SettingsError for settings that it cannot run."""
        _check_installed(settings)
        device = device_of_vllm()
        check_runner(settings, os.environ)
        passes_on(device, settings)
        if device == "cpu":
            _check_kernels()
        else:
            check_compiler()
        return f"vLLM is built for a {device.upper()}; the device itself was not checked"

    def check_device(self, settings: DecoderSettings) -> None:
        """Raise SettingsError if vLLM or its device is missing, or cannot run these settings."""
        set_defaults()
        _check_installed(settings)
        check_runner(settings, os.environ)
        passes_on(device_of_vllm(), settings)
        if device_of_vllm() == "gpu":
            import torch  # takes seconds

            check_driver(torch.version.cuda, settings.component)
            check_compiler()

    def device(self) -> str | None:
        return "cuda" if device_of_vllm() == "gpu" else None

    def begin(self, settings: DecoderSettings) -> None:
        """Import vLLM and start the server that the engine's process is forked from, on a CPU.

        On a GPU a new process is spawned, as the driver's state is not valid after a fork.
        """
        self._forks = device_of_vllm() == "cpu"
        if self._forks:
            engine_server.start(settings.threads)

    def _started(
        self,
        settings: DecoderSettings,
        options: EngineOptions,
        slab: Slab | None = None,
        audio_token: int | None = None,
    ) -> VllmEngine:
        """Start vLLM; its errors about memory are reported with our settings."""
        try:
            return VllmEngine(options, slab, audio_token, forks=self._forks)
        except ProcessFailed as error:
            reason = with_settings(str(error), settings, device_of_vllm())
            raise ProcessFailed(reason) from error


class VllmKind(VllmOnDevice):
    """vLLM with our models, as an `EngineKind`."""

    def capabilities(self, settings: PdWorkerSettings) -> EngineCapabilities:
        return capabilities(settings.draft_tokens, settings.limit_reuse)

    def check_memory(self, settings: PdWorkerSettings, checkpoint: ModelCheckpoint) -> None:
        """Raise SettingsError if KV cache and weights exceed this process's share of the GPU."""
        if (gpu_bytes := gpu_memory()) is not None:
            _, decoder = read_parts(checkpoint)
            weights = decoder.parameters * ITEM_BYTES[settings.dtype]
            block = kv_block_bytes(checkpoint.text_config, settings)
            check_share(settings, block, weights, gpu_bytes)

    def start(
        self,
        settings: PdWorkerSettings,
        checkpoint: ModelCheckpoint,
        slab: Slab,
        audio_token: int | None,
        kv_events: str,
    ) -> VllmEngine:
        options = engine_options(settings, checkpoint, kv_events)
        return self._started(settings, options, slab, audio_token)


def _check_installed(settings: DecoderSettings) -> None:
    """Raise SettingsError if vLLM is not installed, as with requirements/light.txt."""
    if find_spec("vllm") is None:
        is_pd = isinstance(settings, PdWorkerSettings)
        other = ", or set PdWorker.engine to transformers" if is_pd else ""
        raise SettingsError(
            f"{settings.component} runs vLLM, which is not installed: install "
            f"requirements/cpu.txt, or requirements/gpu.txt on a machine with GPUs{other}"
        )


def _check_kernels() -> None:
    """Raise SettingsError without vLLM's kernels for this CPU.

    vLLM ignores import errors of kernels, and fails with the first call.
    """
    set_defaults()
    import torch
    from vllm.platforms import current_platform

    current_platform.import_kernels()
    if not hasattr(torch.ops._C, "init_cpu_memory_env"):
        raise SettingsError(
            "vLLM's kernels for this CPU cannot be loaded, mostly because libnuma is missing "
            "(Debian's package libnuma1); with VLLM_LOGGING_LEVEL=WARNING vLLM logs the reason"
        )


def gpu_capability() -> tuple[int, int] | None:
    """Return the compute capability of vLLM's GPU; None without one, or if it is unknown."""
    gpus = visible_gpus() if device_of_vllm() == "gpu" else []
    return gpus[0].capability if gpus else None


def gpu_memory() -> int | None:
    """Return the bytes of vLLM's GPU; None without one, or if they are unknown."""
    gpus = visible_gpus() if device_of_vllm() == "gpu" else []
    return gpus[0].memory_bytes if gpus else None


def engine_options(
    settings: PdWorkerSettings, checkpoint: ModelCheckpoint, kv_events: str
) -> EngineOptions:
    return replace(
        of_decoder(settings, checkpoint.path),
        limit_reuse=settings.limit_reuse,
        kv_events=kv_events,
        decoder=checkpoint.architecture.decoder,
        audio=checkpoint.architecture.audio,
        chunk_positions=chunk_positions(checkpoint),
    )


def chunk_positions(checkpoint: ModelCheckpoint) -> int:
    """Return the cross-attention positions of a chunk; 0 for audio in the prompt."""
    attends = checkpoint.architecture.audio == "cross_attention"
    return checkpoint.geometry.window_embeddings if attends else 0


def of_decoder(settings: DecoderSettings, checkpoint: Path) -> EngineOptions:
    """Return the options of any decoder, with an unlimited prefix cache."""
    device = device_of_vllm()
    return EngineOptions(
        model=str(checkpoint.resolve()),
        dtype=settings.dtype,
        max_model_len=settings.max_model_len,
        max_num_seqs=settings.max_requests,
        block_size=settings.block_size,
        kv_cache_gib=settings.kv_cache_gib,
        gpu_memory_share=settings.process_memory_share,
        enforce_eager=runs_eagerly(settings, device),
        threads=settings.threads,
        draft_tokens=settings.draft_tokens,
        limit_reuse=False,
        kv_blocks=settings.kv_blocks,
        passes=passes_on(device, settings, gpu_capability()),
    )


class VllmTextKind(VllmOnDevice):
    """vLLM with a text model, which takes no windows."""

    def check_memory(self, settings: TranslateWorkerSettings, model: TextModel) -> None:
        """Raise SettingsError if KV cache and weights do not fit, or prompts are too long."""
        check_positions(model.config, settings.max_model_len, settings.component)
        if (gpu_bytes := gpu_memory()) is not None:
            try:
                block = kv_block_bytes(model.config, settings)
            except KeyError as error:
                raise CheckpointError(f"config.json in {model.path} has no {error}") from None
            check_share(settings, block, model.weight_bytes, gpu_bytes)

    def start(self, settings: TranslateWorkerSettings, model: TextModel) -> VllmEngine:
        """Load the model. Blocks and raises as `EngineKind.start` does."""
        return self._started(settings, of_decoder(settings, model.path))
