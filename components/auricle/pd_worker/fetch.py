"""Gets a request's windows into the landing slab: read over NIXL, verified, pinned.

Nothing reaches vLLM before its windows are here: reading inside the model step
and failing there was seen to emit garbage and to poison the prefix cache.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from auricle.embeddings.memory import HostSlab
from auricle.embeddings.nixl import NixlEndpoint, ReadRequest, Region
from auricle.embeddings.slots import Slot, SlotTable
from auricle.errors import TransferFailed, WindowsMissing
from auricle.messages import DecodeWindow, WindowRef
from auricle.pd_worker.vllm.engine import PlacedWindow

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Fetched:
    """A request's windows, pinned; `bytes_read` is what NIXL moved for it."""

    windows: tuple[PlacedWindow, ...]
    bytes_read: int


class WindowFetcher:
    """The landing slab and its NIXL endpoint. One event loop owns it."""

    def __init__(
        self,
        slab: HostSlab,
        endpoint: NixlEndpoint,
        *,
        fingerprint: str,
        dtype: str,
        deadline_seconds: float,
        on_read: Callable[[float], None] = lambda _seconds: None,
    ) -> None:
        """`on_read` hears how long each read took, verification included (seconds)."""
        self.table = SlotTable(slab.count)
        self._slab = slab
        self._endpoint = endpoint
        self._fingerprint = fingerprint
        self._dtype = dtype
        self._deadline_seconds = deadline_seconds
        self._on_read = on_read
        self._landing: dict[str, asyncio.Future[None]] = {}

    @asynccontextmanager
    async def pinned(self, windows: Sequence[DecodeWindow]) -> AsyncGenerator[Fetched, None]:
        """All of `windows` in the slab, pinned until the block ends.

        Raises WindowsMissing naming those that cannot be had; the caller
        re-encodes them and tries again.
        """
        slots: dict[str, Slot] = {}
        try:
            bytes_read = await self._collect(windows, slots)
            placed = tuple(
                PlacedWindow(w.key, slots[w.key].index, slots[w.key].generation, w.length)
                for w in windows
            )
            yield Fetched(placed, bytes_read)
        finally:
            partial = {w.key for w in windows if w.partial}
            for key, slot in slots.items():
                self.table.unpin(slot)
                if key in partial and slot.key == key:
                    # The next chunk replaces it; finished windows are used again.
                    self.table.supersede(key)

    async def _collect(self, windows: Sequence[DecodeWindow], slots: dict[str, Slot]) -> int:
        """Pin what is here, wait for what others are landing, read the rest."""
        missing: list[DecodeWindow] = []
        for window in windows:
            if window.key in slots:
                continue
            if (landing := self._landing.get(window.key)) is not None:
                await asyncio.wait([landing])
            slot = self.table.find(window.key)
            if slot is None:
                missing.append(window)
            else:
                self.table.pin(slot)
                slots[window.key] = slot
                self._give_back(window)
        if not missing:
            return 0
        return await self._read(missing, slots)

    def _give_back(self, window: DecodeWindow) -> None:
        """A window that need not be read: its lease would hold its slot until its deadline."""
        if (ref := window.ref) is not None:
            self._endpoint.notify(ref.agent, ref.agent_metadata, str(ref.lease).encode())

    async def _read(self, missing: list[DecodeWindow], slots: dict[str, Slot]) -> int:
        refs = self._usable(missing)
        total = 0
        for agent in {ref.agent for ref in refs.values()}:
            group = [w for w in missing if refs[w.key].agent == agent]
            total += await self._read_from(group, [refs[w.key] for w in group], slots)
        return total

    def _usable(self, missing: list[DecodeWindow]) -> dict[str, WindowRef]:
        """Refs that can be read here; raises WindowsMissing for the others."""
        refs = {w.key: w.ref for w in missing if w.ref is not None}
        absent = tuple(w.key for w in missing if w.key not in refs)
        if absent:
            raise WindowsMissing(absent, "not on this PD worker and no location was given")
        for window in missing:
            ref = refs[window.key]
            if (ref.fingerprint, ref.dtype) != (self._fingerprint, self._dtype):
                what = (
                    f"encoded by checkpoint {ref.fingerprint} as {ref.dtype}, "
                    f"this PD worker runs {self._fingerprint} as {self._dtype}"
                )
                raise WindowsMissing((window.key,), what)
            expected = self._slab.layout.content_bytes(window.length)
            if (ref.key, ref.length, ref.size) != (window.key, window.length, expected):
                raise WindowsMissing((window.key,), "its location is of another window or size")
        return refs

    async def _read_from(
        self, windows: list[DecodeWindow], refs: list[WindowRef], slots: dict[str, Slot]
    ) -> int:
        """One transfer for all windows of one encode worker."""
        taken: list[Slot] = []
        landed = asyncio.get_running_loop().create_future()
        quiet = True
        began = time.monotonic()
        try:
            for window in windows:
                taken.append(self.table.allocate(window.key, window.length, partial=window.partial))
                self._landing[window.key] = landed
            quiet = False
            await self._transfer(refs, taken)
            quiet = True
            for window, ref, slot in zip(windows, refs, taken, strict=True):
                self._accept(window, ref, slot)
                slots[window.key] = slot
            self._on_read(time.monotonic() - began)
        except TransferFailed as error:
            keys = tuple(w.key for w in windows)
            raise WindowsMissing(keys, str(error)) from None
        finally:
            for window in windows:
                self._landing.pop(window.key, None)
            landed.set_result(None)
            if quiet:
                for window, slot in zip(windows, taken, strict=False):
                    if window.key not in slots:
                        self.table.abandon(slot)
        return sum(ref.size for ref in refs)

    async def _transfer(self, refs: list[WindowRef], slots: list[Slot]) -> None:
        request = ReadRequest(
            agent=refs[0].agent,
            agent_metadata=refs[0].agent_metadata,
            remote=tuple(Region(r.address, r.size, r.device, r.memory) for r in refs),
            local=tuple(
                self._slab.slot_region(s.index, r.length) for s, r in zip(slots, refs, strict=True)
            ),
            notice=",".join(str(r.lease) for r in refs).encode(),
            deadline_seconds=self._deadline_seconds,
        )
        read = self._endpoint.begin(request)
        loop = asyncio.get_running_loop()
        done = False
        try:
            await asyncio.wrap_future(read.outcome)
            done = True
        finally:
            if not done:
                # Late writes may still arrive: the slots stay in quarantine until then.
                for slot in slots:
                    self.table.detach(slot)
                read.ended.add_done_callback(
                    lambda _: loop.call_soon_threadsafe(self._free_quarantined, slots)
                )

    def _free_quarantined(self, slots: list[Slot]) -> None:
        for slot in slots:
            self.table.abandon(slot)

    def _accept(self, window: DecodeWindow, ref: WindowRef, slot: Slot) -> None:
        """Verify what arrived, then stamp it with this slab's own generation."""
        memory = self._slab.slot(slot.index)
        layout = self._slab.layout
        layout.verify(memory, window.key, ref.generation, window.length)
        layout.restamp(memory, slot.generation)
        self.table.fill(slot)
