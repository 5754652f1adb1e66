"""What is checked before vLLM starts, and how it is set. Its own errors come a minute later.

vLLM itself is imported when an engine starts.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from auricle.checkpoints.files import ModelCheckpoint
from auricle.checkpoints.survey import read_parts
from auricle.config.settings import PdWorkerSettings
from auricle.config.workers import DecoderSettings
from auricle.core.errors import ProcessFailed, SettingsError
from auricle.embeddings.layout import ITEM_BYTES
from auricle.embeddings.slab import Slab
from auricle.process.device_faults import check_driver, visible_gpus
from auricle.process.needs import modules_of
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
    """What vLLM needs of its device, whatever model it has."""

    name = "vLLM"

    def __init__(self) -> None:
        self._forks = False

    def libraries(self) -> Sequence[str]:
        """Return vLLM, and the modules of our plug-in, which vLLM's own processes import."""
        set_defaults()
        late = ["vllm", *modules_of(plug_in)]
        return [*late, "pynvml"] if device_of_vllm() == "gpu" else late

    def built_for(self, settings: DecoderSettings) -> str:
        """Return the device. Raises SettingsError if vLLM would not run on it as it is set."""
        _check_installed(settings)
        device = device_of_vllm()
        check_runner(settings, os.environ)
        passes_on(device, settings)
        if device == "cpu":
            _check_kernels()
        return f"vLLM is built for a {device.upper()}, which was not looked for"

    def check_device(self, settings: DecoderSettings) -> None:
        """Raise SettingsError if vLLM or its device is missing, or would not run as it is set."""
        _check_installed(settings)
        check_runner(settings, os.environ)
        passes_on(device_of_vllm(), settings)
        if device_of_vllm() == "gpu":
            import torch  # takes seconds

            check_driver(torch.version.cuda, settings.component)

    def device(self) -> str | None:
        """Return the GPU if the installed vLLM is built for GPUs."""
        return "cuda" if device_of_vllm() == "gpu" else None

    def begin(self, settings: DecoderSettings) -> None:
        """Start the server that the engine's process is forked off, on a CPU.

        On a GPU that process is a new one: a driver's state does not outlive a fork.
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
        """Start vLLM; what it says of memory is told with the settings that decide."""
        try:
            return VllmEngine(options, slab, audio_token, forks=self._forks)
        except ProcessFailed as error:
            said = with_settings(str(error), settings, device_of_vllm())
            raise ProcessFailed(said) from error


class VllmKind(VllmOnDevice):
    """vLLM, as `engine.EngineKind`."""

    def capabilities(self, settings: PdWorkerSettings) -> EngineCapabilities:
        """Return all; drafts and limited reuse can be turned off."""
        return capabilities(settings.draft_tokens, settings.limit_reuse)

    def check_memory(self, settings: PdWorkerSettings, checkpoint: ModelCheckpoint) -> None:
        """See `check_memory` below."""
        check_memory(settings, checkpoint)

    def start(
        self,
        settings: PdWorkerSettings,
        checkpoint: ModelCheckpoint,
        slab: Slab,
        audio_token: int | None,
        kv_events: str,
    ) -> VllmEngine:
        """Start vLLM with our model and connector."""
        options = engine_options(settings, checkpoint, kv_events)
        return self._started(settings, options, slab, audio_token)


def _check_installed(settings: DecoderSettings) -> None:
    """Raise SettingsError where vLLM is not installed, as with requirements/light.txt."""
    if find_spec("vllm") is None:
        other = isinstance(settings, PdWorkerSettings)
        raise SettingsError(
            f"{settings.component} runs vLLM, which is not installed: install "
            "requirements/cpu.txt, or requirements/gpu.txt on a machine with GPUs"
            + ", or set PdWorker.engine to transformers"
            * other
        )


def _check_kernels() -> None:
    """Raise SettingsError without vLLM's kernels for this CPU.

    vLLM passes over what cannot be loaded, and fails when it calls the first one.
    """
    set_defaults()
    import torch
    from vllm.platforms import current_platform

    current_platform.import_kernels()
    if not hasattr(torch.ops._C, "init_cpu_memory_env"):
        raise SettingsError(
            "vLLM's kernels for this CPU cannot be loaded, mostly because libnuma is missing "
            "(Debian's package libnuma1); with VLLM_LOGGING_LEVEL=WARNING vLLM says why"
        )


def check_memory(settings: PdWorkerSettings, checkpoint: ModelCheckpoint) -> None:
    """Raise SettingsError if what the settings order does not fit into this process's share."""
    gpus = visible_gpus() if device_of_vllm() == "gpu" else []
    if gpus and (gpu_bytes := gpus[0].memory_bytes) is not None:
        _, decoder = read_parts(checkpoint)
        weights = decoder.parameters * ITEM_BYTES[settings.dtype]
        block = kv_block_bytes(checkpoint.text_config, settings)
        check_share(settings, block, weights, gpu_bytes)


def engine_options(
    settings: PdWorkerSettings, checkpoint: ModelCheckpoint, kv_events: str
) -> EngineOptions:
    """Return vLLM's options on the device that it is built for."""
    return replace(
        of_decoder(settings, checkpoint.path),
        limit_reuse=settings.limit_reuse,
        kv_events=kv_events,
        decoder=checkpoint.architecture.decoder,
        audio=checkpoint.architecture.audio,
        chunk_positions=chunk_positions(checkpoint),
    )


def chunk_positions(checkpoint: ModelCheckpoint) -> int:
    """Return how many positions a decoder attends to; 0 where they are in its prompt."""
    attends = checkpoint.architecture.audio == "cross_attention"
    return checkpoint.geometry.window_embeddings if attends else 0


def of_decoder(settings: DecoderSettings, checkpoint: Path) -> EngineOptions:
    """Return the options that every decoder has, with all of the prefix cache."""
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
        passes=passes_on(device, settings),
    )
