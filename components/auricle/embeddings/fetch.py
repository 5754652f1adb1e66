"""Fetches a request's windows into the landing slab: reads over NIXL, verifies, pins.

A request reaches its model only when all its windows have landed: failed reads inside the model
step produced garbage output and poisoned the prefix cache.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from auricle.core.errors import TransferFailed, WindowsMissing, WindowsSpoiled
from auricle.embeddings.landing import land
from auricle.embeddings.layout import HEADER_BYTES
from auricle.embeddings.metrics import LandingMetrics
from auricle.embeddings.nixl import NixlEndpoint
from auricle.embeddings.read_timer import ReadTimer
from auricle.embeddings.reads import ReadRequest, Region, SlotRegions, payloads_then_headers
from auricle.embeddings.slab import Slab
from auricle.embeddings.slots import Slot, SlotRef, SlotTable
from auricle.process.device_faults import end_if_lost
from auricle.protocol.diagnosis import RunningModel, SlabState
from auricle.protocol.recognition import DecodeWindow, WindowRef

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Fetched:
    """A request's pinned windows; `bytes_read` counts transferred bytes, headers included."""

    windows: tuple[SlotRef, ...]
    bytes_read: int


class WindowFetcher:
    """Owns the landing slab and reads into it. Its methods must be called on one event loop."""

    def __init__(
        self,
        slab: Slab,
        endpoint: NixlEndpoint,
        model: RunningModel,
        deadline_seconds: float,
        metrics: LandingMetrics | None = None,
    ) -> None:
        """Embeddings must be of `model`. `deadline_seconds` bounds each read.

        `timer` times reads from each encode worker while it runs.
        """
        self.table = SlotTable(slab.count)
        self.timer = ReadTimer(slab, self.table, endpoint, metrics)
        self._slab = slab
        self._endpoint = endpoint
        self._model = model
        self._deadline_seconds = deadline_seconds
        self._metrics = metrics
        if metrics is not None:
            metrics.show(self.table)
        self._landing: dict[str, asyncio.Future[None]] = {}

    @asynccontextmanager
    async def pinned(self, windows: Sequence[DecodeWindow]) -> AsyncGenerator[Fetched, None]:
        """Fetch all of `windows` and pin them until the block ends.

        Raises WindowsMissing naming the windows that could not be read, and WindowsSpoiled naming
        the windows whose content failed verification; the caller encodes both again. Raises
        Overloaded if all slots are pinned. Leases on windows that are not read are released.
        """
        wanted = _by_key(windows)
        unread = _leases(windows)
        slots: dict[str, Slot] = {}
        try:
            try:
                bytes_read = await self._collect(wanted, slots, unread)
            finally:
                self._release(unread)
            placed = tuple(
                SlotRef(w.key, slots[w.key].index, slots[w.key].generation, w.length)
                for w in windows
            )
            yield Fetched(placed, bytes_read)
        except WindowsMissing:  # possibly raised by the caller, for a corrupt slot
            self._evict_corrupt(wanted, slots)
            raise
        finally:
            for key, slot in slots.items():
                self.table.unpin(slot)
                if wanted[key].partial and slot.key == key:
                    # The next chunk replaces a partial window; finished windows are reused.
                    self.table.supersede(key)

    def _evict_corrupt(self, wanted: Mapping[str, DecodeWindow], slots: Mapping[str, Slot]) -> None:
        """Evict the request's slots whose headers have changed since they landed."""
        for key, slot in slots.items():
            wrong = self._slab.mismatch(slot.index, key, slot.generation, wanted[key].length)
            if wrong is not None:
                log.error("Landing slot %d was evicted: %s", slot.index, wrong)
                self.table.evict(slot.index, slot.generation)

    def state(self) -> SlabState:
        return SlabState(self.table.count, self.table.in_use, self.table.pinned)

    def give_back(self, windows: Sequence[DecodeWindow]) -> None:
        """Release the leases of a rejected request's windows."""
        self._release(_leases(windows))

    def _release(self, leases: Mapping[tuple[str, int], WindowRef]) -> None:
        by_agent: dict[str, list[WindowRef]] = {}
        for ref in leases.values():
            by_agent.setdefault(ref.agent, []).append(ref)
        for agent, refs in by_agent.items():
            self._endpoint.notify(agent, refs[0].agent_metadata, _notice(refs))

    async def _collect(
        self,
        wanted: Mapping[str, DecodeWindow],
        slots: dict[str, Slot],
        unread: dict[tuple[str, int], WindowRef],
    ) -> int:
        """Pin landed windows, read the others, and await reads begun by other requests.

        Other requests' reads are awaited last, so that no two requests wait for each other.
        """
        total = 0
        while True:
            for key in wanted.keys() - slots.keys():
                if (slot := self.table.find(key)) is not None:
                    self.table.pin(slot)
                    slots[key] = slot
            missing = [w for key, w in wanted.items() if key not in slots]
            if not missing:
                return total
            mine = [w for w in missing if w.key not in self._landing]
            if mine:
                total += await self._read(mine, slots, unread)
            else:
                await asyncio.wait([self._landing[missing[0].key]])

    async def _read(
        self,
        missing: list[DecodeWindow],
        slots: dict[str, Slot],
        unread: dict[tuple[str, int], WindowRef],
    ) -> int:
        refs = self._usable(missing)
        total = 0
        with self._reserved(missing) as reserved:
            for agent in sorted({ref.agent for ref in refs.values()}):
                group = [w for w in missing if refs[w.key].agent == agent]
                for window in group:
                    unread.pop((agent, refs[window.key].lease), None)  # the read ends this lease
                total += await self._read_from(group, [refs[w.key] for w in group], reserved, slots)
        return total

    @contextmanager
    def _reserved(self, windows: Sequence[DecodeWindow]) -> Iterator[dict[str, Slot]]:
        """Allocate a slot for each of `windows`; other requests for them wait until the block ends.

        Slots that remain in the mapping when the block ends are freed. Raises Overloaded.
        """
        taken: dict[str, Slot] = {}
        landed = asyncio.get_running_loop().create_future()
        try:
            for window in windows:
                taken[window.key] = self.table.allocate(
                    window.key, window.length, partial=window.partial
                )
                self._landing[window.key] = landed
                self._slab.invalidate(taken[window.key].index)
            # No `await` until here, so that only one request reads a window.
            yield taken
        finally:
            for window in windows:
                if self._landing.get(window.key) is landed:
                    del self._landing[window.key]
            for slot in taken.values():
                self.table.abandon(slot)
            landed.set_result(None)

    def _usable(self, missing: list[DecodeWindow]) -> dict[str, WindowRef]:
        """Return the refs by key. Raises WindowsMissing if one is absent or does not match."""
        refs = {w.key: w.ref for w in missing if w.ref is not None}
        absent = tuple(w.key for w in missing if w.key not in refs)
        if absent:
            raise WindowsMissing(absent, "not on this worker and no location was given")
        for window in missing:
            ref = refs[window.key]
            if (ref.fingerprint, ref.dtype) != (self._model.checkpoint, self._model.dtype):
                what = (
                    f"encoded by checkpoint {ref.fingerprint} as {ref.dtype}, "
                    f"this worker runs {self._model.checkpoint} as {self._model.dtype}"
                )
                raise WindowsMissing((window.key,), what)
            expected = self._slab.layout.payload_bytes(window.length)
            if (ref.key, ref.length, ref.size) != (window.key, window.length, expected):
                raise WindowsMissing((window.key,), "its ref is of another window or size")
        return refs

    async def _read_from(
        self,
        windows: list[DecodeWindow],
        refs: list[WindowRef],
        reserved: dict[str, Slot],
        slots: dict[str, Slot],
    ) -> int:
        """Read all windows of one encode worker at once, into their reserved slots."""
        began = time.monotonic()
        is_new, notice = self.timer.is_new(refs[0].agent), _notice(refs)
        try:
            placed = [reserved[w.key] for w in windows]
            await self._transfer(refs, placed, reserved, b"" if is_new else notice)
        except TransferFailed as error:
            if is_new:
                self.timer.failed(refs[0].agent, str(error))
            if self._slab.on_device:  # no further read would work if the device is lost
                await asyncio.to_thread(end_if_lost, self._slab.synchronize, "the landing slab")
            keys = tuple(w.key for w in windows)
            raise WindowsMissing(keys, str(error)) from None
        if is_new:
            self.timer.time(refs[0], notice)
        spoiled: dict[str, str] = {}
        for window, ref in zip(windows, refs, strict=True):
            try:
                self._accept(window, ref, reserved[window.key])
            except TransferFailed as error:
                spoiled[window.key] = str(error)
            else:
                slots[window.key] = reserved.pop(window.key)
        if self._metrics is not None:
            self._metrics.read_seconds.observe(time.monotonic() - began)
        if spoiled:
            raise WindowsSpoiled(tuple(spoiled), "; ".join(spoiled.values()))
        return sum(self._slab.layout.content_bytes(ref.length) for ref in refs)

    async def _transfer(
        self, refs: list[WindowRef], slots: list[Slot], reserved: dict[str, Slot], notice: bytes
    ) -> None:
        request = ReadRequest(
            agent=refs[0].agent,
            agent_metadata=refs[0].agent_metadata,
            steps=payloads_then_headers(
                [_regions(ref) for ref in refs],
                [
                    self._slab.regions_of(s.index, r.length)
                    for s, r in zip(slots, refs, strict=True)
                ],
            ),
            notice=notice,
            deadline_seconds=self._deadline_seconds,
        )

        def detached() -> None:
            for ref in refs:
                del reserved[ref.key]

        await land(self._endpoint, self.table, request, slots, detached)

    def _accept(self, window: DecodeWindow, ref: WindowRef, slot: Slot) -> None:
        """Verify a slot's content, then set this slab's generation."""
        self._slab.verify(slot.index, window.key, ref.generation, window.length)
        self._slab.set_generation(slot.index, slot.generation)
        self.table.fill(slot)


def _by_key(windows: Sequence[DecodeWindow]) -> dict[str, DecodeWindow]:
    """Return each window once: two windows with equal content have the same key."""
    found: dict[str, DecodeWindow] = {}
    for window in windows:
        if window.key not in found or found[window.key].ref is None:
            found[window.key] = window
    return found


def _leases(windows: Sequence[DecodeWindow]) -> dict[tuple[str, int], WindowRef]:
    return {(w.ref.agent, w.ref.lease): w.ref for w in windows if w.ref is not None}


def _notice(refs: Sequence[WindowRef]) -> bytes:
    """Return the notification that ends the leases of `refs`."""
    return ",".join(str(ref.lease) for ref in refs).encode()


def _regions(ref: WindowRef) -> SlotRegions:
    return SlotRegions(
        Region(ref.address, ref.size, ref.device, ref.memory), Region(ref.header, HEADER_BYTES)
    )
