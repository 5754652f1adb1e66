"""Checks and starts the transformers engine, whose libraries are imported late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from auricle.checkpoints.files import ModelCheckpoint
from auricle.config.settings import PdWorkerSettings
from auricle.config.workers import DecoderSettings
from auricle.core.errors import ProcessFailed
from auricle.embeddings.slab import Slab
from auricle.process.device_faults import first_sentence
from auricle.process.needs import modules_of
from auricle.workers.pd import transformers as home
from auricle.workers.pd.engine import EngineCapabilities
from auricle.workers.pd.kv_room import kv_tokens
from auricle.workers.pd.transformers.options import TransformersOptions, capabilities

if TYPE_CHECKING:
    from auricle.workers.pd.transformers.engine import TransformersEngine


class TransformersKind:
    """transformers, as an `EngineKind`."""

    name = "transformers"

    def capabilities(self, settings: PdWorkerSettings) -> EngineCapabilities:
        return capabilities(settings.limit_reuse)

    def libraries(self) -> Sequence[str]:
        return modules_of(home)

    def built_for(self, settings: DecoderSettings) -> str:
        import torch  # takes seconds

        device = "a GPU" if torch.version.cuda else "a CPU"
        return f"PyTorch is built for {device}; the device itself was not checked"

    def check_device(self, settings: DecoderSettings) -> None:
        """Do nothing: it runs on a GPU if PyTorch finds one, otherwise on the CPU."""

    def device(self) -> str | None:
        import torch  # takes seconds

        return "cuda" if torch.cuda.is_available() else None

    def begin(self, settings: DecoderSettings) -> None:
        """Do nothing: the engine is a thread of this process."""

    def check_memory(self, settings: PdWorkerSettings, checkpoint: ModelCheckpoint) -> None:
        """Raise SettingsError if the KV cache has no room for a single prompt."""
        kv_slots(settings, checkpoint)

    def start(
        self,
        settings: PdWorkerSettings,
        checkpoint: ModelCheckpoint,
        slab: Slab,
        audio_token: int | None,
        kv_events: str,
    ) -> TransformersEngine:
        """Load the decoder. `audio_token` is not used."""
        del audio_token
        if kv_events:
            raise ValueError("this engine declares no KV events and was given an address for them")
        from auricle.workers.pd.transformers.engine import TransformersEngine

        options = TransformersOptions(
            dtype=settings.dtype,
            device=self.device() or "cpu",
            threads=settings.threads,
            max_model_len=settings.max_model_len,
            slots=kv_slots(settings, checkpoint),
            max_waiting=settings.max_requests,
            limit_reuse=settings.limit_reuse,
        )
        try:
            return TransformersEngine(checkpoint, options, slab)
        except (RuntimeError, MemoryError) as error:  # mostly out of memory
            raise ProcessFailed(
                f"transformers cannot start: {first_sentence(error)} (Of PdWorker: kv_cache_gib is "
                f"{settings.kv_cache_gib}, kv_blocks {settings.kv_blocks or 'not set'}, "
                f"max_model_len {settings.max_model_len}.)"
            ) from error


def kv_slots(settings: PdWorkerSettings, checkpoint: ModelCheckpoint) -> int:
    """Return the number of prompts of `max_model_len` tokens in the KV cache.

    Raises SettingsError if it is zero.
    """
    return kv_tokens(settings, checkpoint.text_config) // settings.max_model_len
