"""Checks and starts CTranslate2's engine, whose library is imported late."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from auricle.checkpoints.files import ModelCheckpoint
from auricle.config.settings import PdWorkerSettings
from auricle.config.workers import DecoderSettings
from auricle.core.errors import ProcessFailed, SettingsError
from auricle.embeddings.slab import Slab
from auricle.process.device_faults import first_sentence
from auricle.process.needs import modules_of
from auricle.workers.pd import ctranslate2 as home
from auricle.workers.pd.ctranslate2.options import CTranslate2Options, capabilities
from auricle.workers.pd.engine import EngineCapabilities

if TYPE_CHECKING:
    from auricle.workers.pd.ctranslate2.engine import CTranslate2Engine


class CTranslate2Kind:
    """CTranslate2, as an `EngineKind`."""

    name = "CTranslate2"

    def capabilities(self, settings: PdWorkerSettings) -> EngineCapabilities:
        return capabilities()

    def libraries(self) -> Sequence[str]:
        return ["ctranslate2", *modules_of(home)]

    def built_for(self, settings: DecoderSettings) -> str:
        self.check_device(settings)
        return "it runs on a CPU"

    def check_device(self, settings: DecoderSettings) -> None:
        """Raise SettingsError if CTranslate2 is missing."""
        if find_spec("ctranslate2") is None:
            raise SettingsError(
                "PdWorker.engine is ctranslate2, which is not installed: install requirements/"
                "cpu.txt or light.txt, or set PdWorker.engine to vllm or transformers"
            )

    def device(self) -> str | None:
        return None

    def begin(self, settings: DecoderSettings) -> None:
        """Do nothing: the engine is a thread of this process."""

    def check_memory(self, settings: PdWorkerSettings, checkpoint: ModelCheckpoint) -> None:
        """Raise SettingsError for a decoder that it does not run, or prompts that are too long."""
        if checkpoint.architecture.audio != "cross_attention":
            raise SettingsError(
                f"PdWorker.engine is ctranslate2, which runs Whisper, but {checkpoint.path} has "
                f"{checkpoint.architecture.name}: set engine to vllm or transformers"
            )
        longest = checkpoint.geometry.max_positions
        if settings.max_model_len > longest:
            raise SettingsError(
                f"PdWorker.max_model_len is {settings.max_model_len}, but the decoder of "
                f"{checkpoint.path} has {longest} positions: lower it"
            )

    def start(
        self,
        settings: PdWorkerSettings,
        checkpoint: ModelCheckpoint,
        slab: Slab,
        audio_token: int | None,
        kv_events: str,
    ) -> CTranslate2Engine:
        """See `EngineKind.start`."""
        if kv_events or audio_token is not None:
            raise ValueError("this engine has no KV events, and takes no audio in prompts")
        from auricle.workers.pd.ctranslate2.engine import CTranslate2Engine

        options = CTranslate2Options(
            compute_type=settings.compute_type,
            threads=settings.threads,
            max_model_len=settings.max_model_len,
            max_requests=settings.max_requests,
        )
        try:
            return CTranslate2Engine(checkpoint, options, slab)
        except (RuntimeError, MemoryError, OSError) as error:  # out of memory, or no space
            raise ProcessFailed(f"CTranslate2 cannot start: {first_sentence(error)}") from error
