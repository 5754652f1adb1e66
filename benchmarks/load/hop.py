"""Measures a read of embeddings between two processes, from posting to verification.

    python -m benchmarks.load.hop [--reads 300]

A window of the 0.6B geometry (104 × 1024, bfloat16). The owner polls as the encode worker
does; the reader is the PD worker's `NixlEndpoint`, its two steps and its verification.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time

import numpy as np

from auricle.embeddings.layout import SlabLayout
from auricle.embeddings.memory import HostSlab
from auricle.embeddings.nixl import NixlEndpoint
from auricle.embeddings.reads import ReadRequest, Region, SlotRegions, payloads_then_headers

_LENGTH, _WIDTH, _ITEM_BYTES = 104, 1024, 2
_KEY = "ab" * 24


def _layout() -> SlabLayout:
    return SlabLayout(_WIDTH, _ITEM_BYTES, _LENGTH)


def own() -> None:
    """Run the owner process: offer one slot until its standard input ends."""
    layout = _layout()
    slab = HostSlab.private(layout, 1)
    payload = (np.arange(_LENGTH * layout.row_bytes) % 251).astype(np.uint8)
    slab.write(0, _KEY, 1, payload)
    # As the encode worker while leases are open: it makes progress for its readers.
    endpoint = NixlEndpoint("hop-owner", slab.regions, lambda _notice: None, lambda: True)
    try:
        metadata = endpoint.start()
        place = slab.regions_of(0, _LENGTH)
        regions = [[r.address, r.size] for r in (place.payload, place.header)]
        print(json.dumps({"metadata": metadata.hex(), "regions": regions}), flush=True)
        sys.stdin.read()
    finally:
        endpoint.close()


async def measure(reads: int) -> list[float]:
    """Return the seconds of each read, without the first contact."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.load.hop", "--own"),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None and process.stdin is not None
    while not (line := await process.stdout.readline()).startswith(b"{"):
        pass  # NIXL's own lines
    told = json.loads(line)
    remote = SlotRegions(*(Region(*region) for region in told["regions"]))
    slab = HostSlab.private(_layout(), 1)
    endpoint = NixlEndpoint("hop-reader", slab.regions)
    endpoint.start()
    took: list[float] = []
    try:
        for _ in range(reads + 5):
            began = time.monotonic()
            request = ReadRequest(
                agent="hop-owner",
                agent_metadata=bytes.fromhex(told["metadata"]),
                steps=payloads_then_headers([remote], [slab.regions_of(0, _LENGTH)]),
                notice=b"read",
                deadline_seconds=5.0,
            )
            await asyncio.wrap_future(endpoint.begin(request).outcome)
            slab.verify(0, _KEY, 1, _LENGTH)
            took.append(time.monotonic() - began)
            await asyncio.sleep(0.005)
    finally:
        endpoint.close()
        process.stdin.close()
        await process.wait()
    return took[5:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reads", type=int, default=300)
    parser.add_argument("--own", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.own:
        own()
        return
    took = asyncio.run(measure(arguments.reads))
    print(json.dumps({"embedding_hop_p50_ms": 1000 * statistics.median(took)}))


if __name__ == "__main__":
    main()
