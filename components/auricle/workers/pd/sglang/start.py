"""Checks settings before SGLang starts, and starts it in a process of its own.

SGLang is imported in that process only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auricle.checkpoints.files import ModelCheckpoint
from auricle.checkpoints.text_model import TextModel, check_positions
from auricle.config.settings import PdWorkerSettings, TranslateWorkerSettings
from auricle.config.workers import DecoderSettings
from auricle.core.errors import SettingsError
from auricle.embeddings.slab import Slab
from auricle.embeddings.slabs import export
from auricle.process.device_faults import check_driver
from auricle.process.needs import modules_of
from auricle.workers.pd import sglang as home
from auricle.workers.pd.engine import EngineCapabilities
from auricle.workers.pd.kv_room import kv_tokens
from auricle.workers.pd.sglang.messages import DECODERS, SglangOptions, capabilities
from auricle.workers.pd.sglang.standins import prepare_imports

if TYPE_CHECKING:
    from auricle.workers.pd.sglang.engine import EngineProcess, SglangEngine


class SglangOnDevice:
    """The part of an engine kind for SGLang that is independent of the model."""

    name = "SGLang"

    def __init__(self) -> None:
        self._process: EngineProcess | None = None

    def libraries(self) -> Sequence[str]:
        """Return SGLang and our modules for it. Sets variables, and stand-ins on a CPU."""
        prepare_imports(on_gpu=self.device() is not None)
        return ["sglang", *modules_of(home)]

    def built_for(self, settings: DecoderSettings) -> str:
        import torch  # takes seconds

        _check_installed(settings)
        device = "a GPU" if torch.version.cuda else "a CPU"
        return f"PyTorch is built for {device}; the device itself was not checked"

    def check_device(self, settings: DecoderSettings) -> None:
        """Raise SettingsError if SGLang is missing, or the GPU's driver does not fit."""
        _check_installed(settings)
        if self.device() is not None:
            import torch

            check_driver(torch.version.cuda, settings.component)

    def device(self) -> str | None:
        import torch  # takes seconds

        return "cuda" if torch.cuda.is_available() else None

    def begin(self, settings: DecoderSettings) -> None:
        """Start the engine's process, which imports SGLang and then waits."""
        self._begun(settings)

    def _begun(self, settings: DecoderSettings) -> EngineProcess:
        """Return the engine's process; start it if there is none."""
        if self._process is None:
            from auricle.workers.pd.sglang.engine import EngineProcess

            self._process = EngineProcess(settings.threads, on_gpu=self.device() is not None)
        return self._process

    def _kv_tokens(self, settings: DecoderSettings, config: Mapping[str, Any]) -> int | None:
        if self.device() is not None and settings.kv_blocks is None:
            return None  # the rest of its share
        return kv_tokens(settings, config)

    def _options(
        self, settings: DecoderSettings, checkpoint: Path, config: Mapping[str, Any]
    ) -> SglangOptions:
        """Return the options of any decoder, without audio."""
        return SglangOptions(
            model=str(checkpoint.resolve()),
            dtype=settings.dtype,
            device=self.device() or "cpu",
            max_model_len=settings.max_model_len,
            max_requests=settings.max_requests,
            kv_tokens=self._kv_tokens(settings, config),
            memory_share=settings.process_memory_share,
        )


class SglangKind(SglangOnDevice):
    """SGLang with our models, as an `EngineKind`."""

    def capabilities(self, settings: PdWorkerSettings) -> EngineCapabilities:
        return capabilities()

    def check_memory(self, settings: PdWorkerSettings, checkpoint: ModelCheckpoint) -> None:
        """Raise SettingsError for a decoder, a prompt or a KV cache that cannot be."""
        decoder = checkpoint.architecture.decoder
        if decoder not in DECODERS:
            raise SettingsError(
                f"PdWorker.engine is sglang, which runs {', '.join(DECODERS)}, but "
                f"{checkpoint.path} has {decoder}: set engine to vllm or transformers"
            )
        check_positions(checkpoint.text_config, settings.max_model_len, settings.component)
        self._kv_tokens(settings, checkpoint.text_config)

    def start(
        self,
        settings: PdWorkerSettings,
        checkpoint: ModelCheckpoint,
        slab: Slab,
        audio_token: int | None,
        kv_events: str,
    ) -> SglangEngine:
        if kv_events or audio_token is None:
            raise ValueError("this engine has no KV events, and takes audio in prompts only")
        from auricle.workers.pd.sglang.engine import SglangEngine

        options = replace(
            self._options(settings, checkpoint.path, checkpoint.text_config),
            slab=export(slab),
            audio_token=audio_token,
        )
        return SglangEngine(options, self._begun(settings))


class SglangTextKind(SglangOnDevice):
    """SGLang with a text model and its own class for it, as a `TextEngineKind`."""

    def check_memory(self, settings: TranslateWorkerSettings, model: TextModel) -> None:
        """Raise SettingsError for a prompt or a KV cache that cannot be."""
        check_positions(model.config, settings.max_model_len, settings.component)
        self._kv_tokens(settings, model.config)

    def start(self, settings: TranslateWorkerSettings, model: TextModel) -> SglangEngine:
        from auricle.workers.pd.sglang.engine import SglangEngine

        options = self._options(settings, model.path, model.config)
        return SglangEngine(options, self._begun(settings))


def _check_installed(settings: DecoderSettings) -> None:
    if find_spec("sglang") is None:
        others = "vllm or transformers" if isinstance(settings, PdWorkerSettings) else "vllm"
        raise SettingsError(
            f"{settings.component}.engine is sglang, which is not installed: install requirements/"
            "sglang-cpu.txt, or requirements/sglang-gpu.txt on a machine with GPUs, or set "
            f"{settings.component}.engine to {others}"
        )
