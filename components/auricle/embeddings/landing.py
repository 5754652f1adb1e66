"""Reads into slots of a landing slab, which stay out of use while NIXL may write to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from auricle.core.aio import with_timeout
from auricle.core.errors import DeadlineExceeded, TransferFailed
from auricle.embeddings.nixl import NixlEndpoint
from auricle.embeddings.reads import PendingRead, ReadRequest
from auricle.embeddings.slots import Slot, SlotTable

_THREAD_SECONDS = 1.0


async def land(
    endpoint: NixlEndpoint,
    table: SlotTable,
    request: ReadRequest,
    slots: Sequence[Slot],
    detached: Callable[[], None] = lambda: None,
) -> PendingRead:
    """Read into `slots`, which the caller has allocated, and return the finished read.

    Raises TransferFailed. If the read has not ended then, or the caller is cancelled, the slots are
    detached and freed once it has; `detached` is called in that case. For one event loop.
    """
    read = endpoint.begin(request)
    loop = asyncio.get_running_loop()
    done = False
    try:
        # The endpoint's thread keeps the deadline; this one holds if the thread hangs.
        outcome = asyncio.wrap_future(read.outcome)
        await with_timeout(request.deadline_seconds + _THREAD_SECONDS, outcome, "the NIXL thread")
        done = True
    except DeadlineExceeded as error:
        raise TransferFailed(str(error)) from None
    finally:
        if not done:
            # NIXL may still write to the slots until the read has ended.
            for slot in slots:
                table.detach(slot)
            detached()
            read.ended.add_done_callback(lambda _: loop.call_soon_threadsafe(_free, table, slots))
    return read


def _free(table: SlotTable, slots: Sequence[Slot]) -> None:
    for slot in slots:
        table.abandon(slot)
