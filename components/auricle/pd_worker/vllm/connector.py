"""vLLM's encoder-cache connector: windows from the landing slab into the model's encoder cache.

The PD worker has read and verified a request's windows into slots of a shared
slab, and pinned them, before the request reaches vLLM. The connector maps the
same slab in vLLM's processes: the scheduler side checks each slot's header
again (the guard: a wrong slot fails that one request), the worker side copies.

Which slot holds which window travels with the request:
`SamplingParams.extra_args["ec_transfer_params"] = {"windows": [[key, slot, generation, length]]}`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import torch
from vllm.config import VllmConfig
from vllm.distributed.ec_transfer.ec_connector.base import (
    ECConnectorBase,
    ECConnectorMetadata,
    ECConnectorRole,
)
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.request import Request

from auricle.embeddings.layout import HEADER_BYTES, SlabLayout
from auricle.embeddings.memory import HostSlab

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Location:
    """A window in the landing slab."""

    slot: int
    generation: int
    length: int


@dataclass
class LoadWindows(ECConnectorMetadata):
    """Scheduler → worker: windows to copy before this step's forward pass."""

    windows: dict[str, Location] = field(default_factory=dict)


class LandingSlabConnector(ECConnectorBase):
    """See the module; `ec_connector_extra_config` holds the slab's name and sizes."""

    def __init__(self, vllm_config: VllmConfig, role: ECConnectorRole) -> None:
        super().__init__(vllm_config, role)
        extra = vllm_config.ec_transfer_config.ec_connector_extra_config
        layout = SlabLayout(extra["width"], extra["item_bytes"], extra["max_length"])
        self._slab = HostSlab.attach(layout, extra["slots"], extra["slab"])
        self._dtype = vllm_config.model_config.dtype
        self._device = vllm_config.device_config.device
        self._located: dict[str, Location] = {}
        self._unavailable: set[str] = set()
        self._loads: dict[str, Location] = {}

    # ── scheduler side ──────────────────────────────────────────────────────

    def ensure_cache_available(self, request: Request, num_computed_tokens: int) -> bool:
        """True if every window that KV does not cover is where the request says it is."""
        named = {row[0]: Location(*row[1:]) for row in self._windows(request)}
        for feature in request.mm_features:
            position = feature.mm_position
            if position.offset + position.length <= num_computed_tokens:
                continue
            location = named.get(feature.identifier)
            wrong = (
                "the request does not say where it is"
                if location is None
                else self._check(feature.identifier, location, position.length)
            )
            if location is None or wrong is not None:
                log.error("%s: window %s: %s", request.request_id, feature.identifier, wrong)
                self._unavailable.add(request.request_id)
                return False
            self._located[feature.identifier] = location
        return True

    def _windows(self, request: Request) -> list[list[Any]]:
        params = request.ec_transfer_params or {}
        windows: list[list[Any]] = params.get("windows", [])
        return windows

    def _check(self, key: str, location: Location, length: int) -> str | None:
        if not 0 <= location.slot < self._slab.count:
            return f"slot {location.slot} is outside the slab"
        memory = self._slab.slot(location.slot)
        return self._slab.layout.matches(memory, key, location.generation, length)

    def take_unavailable_requests(self) -> set[str]:
        """Requests that vLLM is to fail; taken once."""
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
        """Slots may be reused after this, so their locations are forgotten."""
        for feature in request.mm_features:
            self._located.pop(feature.identifier, None)
        return False, None

    # ── worker side ─────────────────────────────────────────────────────────

    def start_load_caches(self, encoder_cache: dict[str, torch.Tensor], **kwargs: Any) -> None:
        """Copy this step's windows; the pinned slots were verified at admission."""
        metadata = self._get_connector_metadata()
        if not isinstance(metadata, LoadWindows):
            raise TypeError(f"unexpected connector metadata {type(metadata).__name__}")
        for key, location in metadata.windows.items():
            if key not in encoder_cache:
                encoder_cache[key] = self._read(location)

    def _read(self, location: Location) -> torch.Tensor:
        layout = self._slab.layout
        memory = self._slab.slot(location.slot)[
            HEADER_BYTES : layout.content_bytes(location.length)
        ]
        values = torch.from_numpy(memory.copy()).view(self._dtype)
        return values.view(location.length, layout.width).to(self._device)

    def save_caches(
        self, encoder_cache: dict[str, torch.Tensor], mm_hash: str, **kwargs: Any
    ) -> None:
        """This side only consumes."""
