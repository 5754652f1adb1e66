"""Times reads from each encode worker that this process meets.

UCX chooses the transport and may choose a slow one, such as copies through the host, without a
message; NIXL does not report the choice. The rate shows it.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import OrderedDict

from auricle.core.errors import AuricleError
from auricle.embeddings.landing import land
from auricle.embeddings.layout import HEADER_BYTES, tenant_mark
from auricle.embeddings.metrics import LandingMetrics
from auricle.embeddings.nixl import NixlEndpoint
from auricle.embeddings.reads import ReadRequest, Region, SlotRegions, payloads_then_headers
from auricle.embeddings.slab import Slab
from auricle.embeddings.slots import SlotTable
from auricle.ops.read_rates import GPU, least_rate
from auricle.protocol.diagnosis import TimedRead
from auricle.protocol.recognition import WindowRef

log = logging.getLogger(__name__)

# Takes longer than polls of NIXL (0.1 ms) up to some 50 GB/s, and 32 ms at 0.5 GB/s.
_READ_BYTES = 16 << 20
_MOST_WINDOWS = 512
# The fastest counts, as processes that start share the cores.
_READS = 3
_DEADLINE_SECONDS = 5.0
MOST_WAITING = 16
_MOST_KNOWN = 256


class ReadTimer:
    """Reads the first window of each encode worker again and again, into one landing slot.

    The window's lease stays open meanwhile: it keeps the slot, and makes the owner drive progress.
    All methods must be called on one event loop. Nothing is timed unless `run` runs.
    """

    def __init__(
        self, slab: Slab, table: SlotTable, endpoint: NixlEndpoint, metrics: LandingMetrics | None
    ) -> None:
        self._slab = slab
        self._table = table
        self._endpoint = endpoint
        self._metrics = metrics
        self._waiting: asyncio.Queue[tuple[WindowRef, bytes]] = asyncio.Queue(MOST_WAITING)
        # By agent, the one met last at the end; None while its reads are not over.
        self._known: OrderedDict[str, TimedRead | None] = OrderedDict()
        self._runs = False
        self._unreadable = ""  # the agent whose first read failed last

    def is_new(self, agent: str) -> bool:
        """Whether reads from `agent` are to be timed, once one has succeeded."""
        return self._runs and agent not in self._known

    def time(self, ref: WindowRef, notice: bytes) -> None:
        """Time reads of `ref`, which has been read once; `notice` then ends its lease."""
        if self.is_new(ref.agent) and not self._waiting.full():
            self._keep(ref.agent, None)
            self._waiting.put_nowait((ref, notice))
        else:
            self._endpoint.notify(ref.agent, ref.agent_metadata, notice)

    def failed(self, agent: str, why: str) -> None:
        """Report that the first read from `agent` failed."""
        if agent != self._unreadable:  # the caller repeats it, with another message each time
            self._unreadable = agent
            log.error("No embeddings were read from %s so far: %s", agent, why)

    def reads(self) -> tuple[TimedRead, ...]:
        """Return the results for the encode workers met last."""
        return tuple(read for read in self._known.values() if read is not None)

    async def run(self) -> None:
        """Time the reads in turn, for as long as the process serves."""
        self._runs = True
        while True:
            ref, notice = await self._waiting.get()
            try:
                self._keep(ref.agent, await self._timed(ref, notice))
            except Exception as error:  # optional, so it must not end the worker
                why = str(error) or type(error).__name__
                expected = isinstance(error, AuricleError)
                log.warning(
                    "Reads from %s could not be timed: %s", ref.agent, why, exc_info=not expected
                )
                self._keep(ref.agent, TimedRead(ref.agent, _memory(ref), fault=why))

    def _keep(self, agent: str, read: TimedRead | None) -> None:
        self._known[agent] = read
        self._known.move_to_end(agent)
        while len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)

    async def _timed(self, ref: WindowRef, notice: bytes) -> TimedRead:
        """Raises Overloaded without a free landing slot, and TransferFailed."""
        layout = self._slab.layout
        windows = min(max(1, _READ_BYTES // layout.payload_stride), _MOST_WINDOWS)
        size = windows * layout.content_bytes(layout.max_length)
        seconds = min(
            [
                await self._read(ref, windows, notice if number == _READS else b"")
                for number in range(1, _READS + 1)
            ]
        )
        read = TimedRead(ref.agent, _memory(ref), size, seconds)
        if self._metrics is not None:
            self._metrics.timed(read.memory, size / seconds)
        self._log(read)
        return read

    async def _read(self, ref: WindowRef, windows: int, notice: bytes) -> float:
        """Read a whole slot, whatever the window's length, `windows` times; return the seconds."""
        key = uuid.uuid4().hex + tenant_mark("timed read")
        length = self._slab.layout.max_length
        slot = self._table.allocate(key, length, partial=True)
        whole = self._slab.layout.payload_bytes(length)
        remote = SlotRegions(
            Region(ref.address, whole, ref.device, ref.memory), Region(ref.header, HEADER_BYTES)
        )
        local = self._slab.regions_of(slot.index, length)
        request = ReadRequest(
            agent=ref.agent,
            agent_metadata=ref.agent_metadata,
            steps=payloads_then_headers([remote] * windows, [local] * windows),
            notice=notice,
            deadline_seconds=_DEADLINE_SECONDS,
        )
        detached: list[None] = []
        try:
            read = await land(
                self._endpoint, self._table, request, [slot], lambda: detached.append(None)
            )
        finally:
            if not detached:
                self._table.abandon(slot)
        return read.seconds

    def _log(self, read: TimedRead) -> None:
        assert read.seconds is not None
        mine = GPU if self._slab.on_device else "host"
        rate = read.size / read.seconds
        is_slow = rate < least_rate(read.memory, mine)
        log.log(
            logging.WARNING if is_slow else logging.INFO,
            "reads %.2f GB/s from %s, from memory of the %s to memory of the %s, over NIXL's %s "
            "(%.1f MB in %.1f ms)%s",
            rate / 1e9,
            read.agent,
            read.memory,
            mine,
            ", ".join(self._endpoint.backends),
            read.size / 1e6,
            1000 * read.seconds,
            ": this is slow, `auricle doctor` has the causes" if is_slow else "",
        )


def _memory(ref: WindowRef) -> str:
    return GPU if ref.memory == "VRAM" else "host"
