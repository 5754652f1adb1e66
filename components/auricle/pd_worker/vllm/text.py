"""Starts vLLM with a text model, which it has as it is: our scheduler and worker, no connector."""

from __future__ import annotations

from collections.abc import Sequence

from auricle.checkpoint.geometry import kv_values_per_token
from auricle.checkpoint.text_model import TextModel
from auricle.embeddings.layout import ITEM_BYTES
from auricle.errors import CheckpointError, ProcessFailed, SettingsError
from auricle.pd_worker.vllm.device_memory import check_share, with_settings
from auricle.pd_worker.vllm.device_passes import device_of_vllm
from auricle.pd_worker.vllm.engine import VllmEngine
from auricle.pd_worker.vllm.start import VllmKind, check_device, of_decoder
from auricle.process.gpus import visible_gpus
from auricle.settings import TranslateWorkerSettings


class VllmTextKind:
    """vLLM, as `engine.TextEngineKind`."""

    name = "vLLM"

    def libraries(self) -> Sequence[str]:
        """See `VllmKind.libraries`."""
        return VllmKind().libraries()

    def built_for(self, settings: TranslateWorkerSettings) -> str:
        """See `VllmKind.built_for`."""
        return VllmKind().built_for(settings)

    def check_device(self, settings: TranslateWorkerSettings) -> None:
        """Raise SettingsError if vLLM has no device, or would not run on it as it is set."""
        check_device(settings)

    def check_memory(self, settings: TranslateWorkerSettings, model: TextModel) -> None:
        """Raise SettingsError if what the settings order does not fit, or the prompt's positions
        are more than the checkpoint has.
        """
        positions = model.config.get("max_position_embeddings")
        if isinstance(positions, int) and settings.max_model_len > positions:
            raise SettingsError(
                f"TranslateWorker.max_model_len is {settings.max_model_len}, but the checkpoint "
                f"has {positions} positions (max_position_embeddings): lower it to that"
            )
        gpus = visible_gpus() if device_of_vllm() == "gpu" else []
        if gpus and (gpu_bytes := gpus[0].memory_bytes) is not None:
            try:
                values = kv_values_per_token(model.config)
            except KeyError as error:
                raise CheckpointError(f"config.json in {model.path} has no {error}") from None
            block = values * ITEM_BYTES[settings.dtype] * settings.block_size
            check_share(settings, block, model.weight_bytes, gpu_bytes)

    def start(self, settings: TranslateWorkerSettings, model: TextModel) -> VllmEngine:
        """Start vLLM; what it says of memory is told with the settings that decide."""
        try:
            return VllmEngine(of_decoder(settings, model.path))
        except ProcessFailed as error:
            said = with_settings(str(error), settings, device_of_vllm())
            raise ProcessFailed(said) from error
