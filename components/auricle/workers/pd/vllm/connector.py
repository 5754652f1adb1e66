"""vLLM's encoder-cache connector: copies windows from the landing slab to the encoder cache.

The PD worker reads and verifies a request's windows, and pins their slots of a shared slab,
before the request reaches vLLM. The connector maps the same slab in vLLM's processes. Its scheduler
side checks each slot's header again, so that a wrong slot fails only its request; its worker side
copies the windows of a step at once.

The slot of each window is a parameter of the request:
`SamplingParams.extra_args["ec_transfer_params"] = {"windows": [[key, slot, generation, length]]}`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from vllm.config import VllmConfig
from vllm.distributed.ec_transfer.ec_connector.base import (
    ECConnectorBase,
    ECConnectorMetadata,
    ECConnectorRole,
)
from vllm.multimodal.inputs import MultiModalFeatureSpec
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.request import Request

from auricle.embeddings.slabs import attach
from auricle.embeddings.slots import SlotRef
from auricle.process.engine_process import lock_down_ports

log = logging.getLogger(__name__)

# The name of a request's input: slot and length of each of its windows, int64 (windows, 2).
SLOTS = "slots"


@dataclass
class LoadWindows(ECConnectorMetadata):
    """Sent by the scheduler side to the worker side: windows to copy before this step."""

    windows: dict[str, SlotRef] = field(default_factory=dict)


class LandingSlabConnector(ECConnectorBase):
    """Both sides of the connector; `ec_connector_extra_config` is `slabs.export`'s."""

    def __init__(self, vllm_config: VllmConfig, role: ECConnectorRole) -> None:
        super().__init__(vllm_config, role)
        extra = vllm_config.ec_transfer_config.ec_connector_extra_config
        self._slab = attach(extra)
        self._dtype = vllm_config.model_config.dtype
        self._device = vllm_config.device_config.device
        self._located: dict[str, SlotRef] = {}
        self._unavailable: set[str] = set()
        self._loads: dict[str, SlotRef] = {}

    # ── scheduler side ──────────────────────────────────────────────────────

    def ensure_cache_available(self, request: Request, num_computed_tokens: int) -> bool:
        """Return whether every window outside the prefix cache is in the slot the request names."""
        features = [f for f in request.mm_features if _end(f) > num_computed_tokens]
        if not features:
            return True  # every step after the prefill
        named = {ref.key: ref for ref in self._windows(request)}
        for feature in features:
            key, length = feature.identifier, feature.mm_position.length
            if key not in named:
                return self._refuse(request, key, "the request names no slot for it")
            if (wrong := self._mismatch(named[key], length)) is not None:
                return self._refuse(request, key, wrong)
            self._located[key] = named[key]
        return True

    def _refuse(self, request: Request, key: str, wrong: str) -> bool:
        log.error("Request %s fails: window %s: %s", request.request_id, key, wrong)
        self._unavailable.add(request.request_id)
        return False

    def _windows(self, request: Request) -> list[SlotRef]:
        params = request.ec_transfer_params or {}
        return [SlotRef(*row) for row in params.get("windows", [])]

    def _mismatch(self, ref: SlotRef, length: int) -> str | None:
        return self._slab.mismatch(ref.slot, ref.key, ref.generation, length)

    def take_unavailable_requests(self) -> set[str]:
        """Return the requests that vLLM must fail, each once."""
        taken, self._unavailable = self._unavailable, set()
        return taken

    def has_cache_item(self, identifier: str) -> bool:
        return identifier in self._located

    def update_state_after_alloc(self, request: Request, index: int) -> None:
        identifier = request.mm_features[index].identifier
        self._loads[identifier] = self._located[identifier]

    def build_connector_meta(self, scheduler_output: SchedulerOutput) -> LoadWindows:
        loads, self._loads = self._loads, {}
        return LoadWindows(loads)

    def request_finished(self, request: Request) -> tuple[bool, dict[str, Any] | None]:
        """Drop the request's locations, as its slots may be reused."""
        for feature in request.mm_features:
            self._located.pop(feature.identifier, None)
        return False, None

    # ── worker side ─────────────────────────────────────────────────────────

    def start_worker_services(self) -> None:
        """Called in each of vLLM's processes once it has its peers and its weights."""
        lock_down_ports()
        self._slab.open()  # now: only errors at start are reported with a reason

    def start_load_caches(self, encoder_cache: dict[str, torch.Tensor], **kwargs: Any) -> None:
        """Copy this step's windows from their pinned and verified slots."""
        metadata = self._get_connector_metadata()
        if not isinstance(metadata, LoadWindows):
            raise TypeError(f"unexpected connector metadata {type(metadata).__name__}")
        new = {key: at for key, at in metadata.windows.items() if key not in encoder_cache}
        if new:
            encoder_cache.update(zip(new, self._gather(list(new.values())), strict=True))

    def _gather(self, locations: Sequence[SlotRef]) -> Sequence[torch.Tensor]:
        """Copy all windows, as vLLM keeps them longer than their slots are pinned.

        Each has its own memory, as vLLM frees them separately.
        """
        gathered = self._slab.gather([(at.slot, at.length) for at in locations])
        # Before an abort is answered, which ends the pins.
        self._slab.synchronize()
        return [self._embeddings(torch.as_tensor(window)) for window in gathered]

    def _embeddings(self, window: torch.Tensor) -> torch.Tensor:
        if self._device.type == "cuda" and window.device.type == "cpu":
            window = window.pin_memory()  # for an asynchronous copy
        values = window.to(self._device, non_blocking=True).view(self._dtype)
        return values.view(-1, self._slab.layout.width)

    def shutdown(self) -> None:
        self._slab.close()

    def save_caches(
        self, encoder_cache: dict[str, torch.Tensor], mm_hash: str, **kwargs: Any
    ) -> None:
        """Do nothing: this connector only loads."""


class CrossAttentionConnector(LandingSlabConnector):
    """The connector for decoders with cross-attention: it only checks slots.

    vLLM has no worker side for encoder-decoder models. The model copies the windows
    (`whisper_model.py`); later passes use its keys and values.
    """

    def ensure_cache_available(self, request: Request, num_computed_tokens: int) -> bool:
        """Return whether every window is in the slot that the request names."""
        if num_computed_tokens > 0:
            return True
        for ref in self._windows(request):
            if (wrong := self._mismatch(ref, ref.length)) is not None:
                return self._refuse(request, ref.key, wrong)
        return True

    def has_cache_item(self, identifier: str) -> bool:
        return False  # so that the model copies the windows

    def update_state_after_alloc(self, request: Request, index: int) -> None:
        """Do nothing: the model loads the windows."""

    def request_finished(self, request: Request) -> tuple[bool, dict[str, Any] | None]:
        return False, None


def _end(feature: MultiModalFeatureSpec) -> int:
    end: int = feature.mm_position.offset + feature.mm_position.length
    return end
