"""vLLM's encoder-cache connector: copies windows from the landing slab to the encoder cache.

The PD worker reads and verifies a request's windows, and pins their slots of a shared slab,
before the request reaches vLLM. The connector maps the same slab in vLLM's processes. Its
scheduler side checks each slot's header again, so that a wrong slot fails that one request;
its worker side copies those of a step at once.

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
from auricle.workers.pd.vllm.process import lock_down_ports

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Location:
    """The slot of a window in the landing slab; `length` in embeddings."""

    slot: int
    generation: int
    length: int


@dataclass
class LoadWindows(ECConnectorMetadata):
    """Sent by the scheduler side to the worker side: windows to copy before this step."""

    windows: dict[str, Location] = field(default_factory=dict)


class LandingSlabConnector(ECConnectorBase):
    """Both sides of the connector; `ec_connector_extra_config` has the slab's name and sizes."""

    def __init__(self, vllm_config: VllmConfig, role: ECConnectorRole) -> None:
        super().__init__(vllm_config, role)
        extra = vllm_config.ec_transfer_config.ec_connector_extra_config
        self._slab = attach(extra)
        self._dtype = vllm_config.model_config.dtype
        self._device = vllm_config.device_config.device
        self._located: dict[str, Location] = {}
        self._unavailable: set[str] = set()
        self._loads: dict[str, Location] = {}

    # ── scheduler side ──────────────────────────────────────────────────────

    def ensure_cache_available(self, request: Request, num_computed_tokens: int) -> bool:
        """Return whether every window outside the prefix cache is in the slot the request names."""
        features = [f for f in request.mm_features if _end(f) > num_computed_tokens]
        if not features:
            return True  # as in every step after the prefill
        named = {row[0]: row[1:] for row in self._windows(request)}
        for feature in features:
            where = named.get(feature.identifier)
            location = None if where is None else Location(*where)
            wrong = (
                "the request names no slot for it"
                if location is None
                else self._check(feature.identifier, location, feature.mm_position.length)
            )
            if location is None or wrong is not None:
                self._refuse(request, feature.identifier, wrong)
                return False
            self._located[feature.identifier] = location
        return True

    def _refuse(self, request: Request, key: str, wrong: str | None) -> None:
        log.error("%s: window %s: %s", request.request_id, key, wrong)
        self._unavailable.add(request.request_id)

    def _windows(self, request: Request) -> list[list[Any]]:
        params = request.ec_transfer_params or {}
        windows: list[list[Any]] = params.get("windows", [])
        return windows

    def _check(self, key: str, location: Location, length: int) -> str | None:
        if not 0 <= location.slot < self._slab.count:
            return f"slot {location.slot} is outside the slab"
        return self._slab.mismatch(location.slot, key, location.generation, length)

    def take_unavailable_requests(self) -> set[str]:
        """Return the requests that vLLM must fail, each of them once."""
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
        """Drop the request's locations: its slots may be reused from now on."""
        for feature in request.mm_features:
            self._located.pop(feature.identifier, None)
        return False, None

    # ── worker side ─────────────────────────────────────────────────────────

    def start_worker_services(self) -> None:
        """Called in each process of vLLM's once it has its peers and its weights."""
        lock_down_ports()
        self._slab.open()  # what is refused while vLLM starts is said; later it only ends

    def start_load_caches(self, encoder_cache: dict[str, torch.Tensor], **kwargs: Any) -> None:
        """Copy this step's windows from their pinned slots, which admission has verified."""
        metadata = self._get_connector_metadata()
        if not isinstance(metadata, LoadWindows):
            raise TypeError(f"unexpected connector metadata {type(metadata).__name__}")
        new = {key: at for key, at in metadata.windows.items() if key not in encoder_cache}
        if new:
            encoder_cache.update(zip(new, self._gather(list(new.values())), strict=True))

    def _gather(self, locations: Sequence[Location]) -> Sequence[torch.Tensor]:
        """Copy all windows at once: vLLM keeps them longer than their slots are pinned.

        Each has memory of its own, as vLLM frees them one by one.
        """
        gathered = self._slab.gather([(at.slot, at.length) for at in locations])
        # Before an abort is answered, after which slots are not pinned any more.
        self._slab.synchronize()
        return [self._embeddings(torch.as_tensor(window)) for window in gathered]

    def _embeddings(self, window: torch.Tensor) -> torch.Tensor:
        if self._device.type == "cuda" and window.device.type == "cpu":
            window = window.pin_memory()  # or the host would wait for the copy
        values = window.to(self._device, non_blocking=True).view(self._dtype)
        return values.view(-1, self._slab.layout.width)

    def shutdown(self) -> None:
        self._slab.close()

    def save_caches(
        self, encoder_cache: dict[str, torch.Tensor], mm_hash: str, **kwargs: Any
    ) -> None:
        """Do nothing: this connector only loads."""


def _end(feature: MultiModalFeatureSpec) -> int:
    """Return the position in the prompt that follows a window."""
    end: int = feature.mm_position.offset + feature.mm_position.length
    return end
