"""Starts vLLM with a text model, which it has as it is: our scheduler and worker, no connector."""

from __future__ import annotations

from auricle.checkpoints.geometry import kv_values_per_token
from auricle.checkpoints.text_model import TextModel, check_positions
from auricle.config.settings import TranslateWorkerSettings
from auricle.core.errors import CheckpointError
from auricle.embeddings.layout import ITEM_BYTES
from auricle.process.device_faults import visible_gpus
from auricle.workers.pd.vllm.device_memory import check_share, device_of_vllm
from auricle.workers.pd.vllm.engine import VllmEngine
from auricle.workers.pd.vllm.start import VllmOnDevice, of_decoder


class VllmTextKind(VllmOnDevice):
    """vLLM, as `engine.TextEngineKind`."""

    def check_memory(self, settings: TranslateWorkerSettings, model: TextModel) -> None:
        """Raise SettingsError if what the settings order does not fit, or the prompt's positions
        are more than the checkpoint has.
        """
        check_positions(model.config, settings.max_model_len)
        gpus = visible_gpus() if device_of_vllm() == "gpu" else []
        if gpus and (gpu_bytes := gpus[0].memory_bytes) is not None:
            try:
                values = kv_values_per_token(model.config)
            except KeyError as error:
                raise CheckpointError(f"config.json in {model.path} has no {error}") from None
            block = values * ITEM_BYTES[settings.dtype] * settings.block_size
            check_share(settings, block, model.weight_bytes, gpu_bytes)

    def start(self, settings: TranslateWorkerSettings, model: TextModel) -> VllmEngine:
        """Start vLLM with its own model."""
        return self._started(settings, of_decoder(settings, model.path))
