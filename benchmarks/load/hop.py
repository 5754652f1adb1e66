"""Reads of embeddings between two processes over NIXL: from device to device, and host to host.

A window has the 0.6B geometry (104 × 1024, bfloat16). A read has its usual two steps, and verifies
the window as its kind of slab requires: in host memory by the header and its checksum; on a GPU by
the header, which the second step reads and which verifies the first.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from auricle.core.errors import TransferFailed
from auricle.embeddings.layout import SlabLayout
from auricle.embeddings.nixl import NixlEndpoint
from auricle.embeddings.reads import ReadRequest, Region, SlotRegions, payloads_then_headers
from auricle.embeddings.slab import Slab
from auricle.embeddings.slabs import new_slab

LENGTH = 104
LAYOUT = SlabLayout(1024, 2, LENGTH)
_KEY, _GENERATION = "ab" * 24, 1
_WINDOWS = (1, 4, 13)  # of a read: the growing one, a moved segment, many segments
_WARM_UP = 5
_PAUSE_SECONDS = 0.002


def content(slot: int) -> np.ndarray:
    """Return the bytes of a slot, different for every slot."""
    values = np.arange(LAYOUT.payload_bytes(LENGTH), dtype=np.uint32) * (2 * slot + 1)
    return (values % 251).astype(np.uint8)


def _slab(memory: str) -> Slab:
    device = "cuda" if memory == "vram" else None
    return new_slab(LAYOUT, max(_WINDOWS), device=device, shared=False)


def own(memory: str) -> None:
    """Run the owner process: offer slots until its standard input ends."""
    slab = _slab(memory)
    for slot in range(slab.count):
        slab.write(slot, _KEY, _GENERATION, content(slot))
    # Like an encode worker with open leases: it makes progress for its readers.
    endpoint = _endpoint("owner", slab, serving=True)
    try:
        offer = {
            "agent": endpoint.name,
            "metadata": endpoint.start().hex(),
            "places": [_plain(slab.regions_of(slot, LENGTH)) for slot in range(slab.count)],
        }
        print(json.dumps(offer), flush=True)
        sys.stdin.read()
    finally:
        endpoint.close()


def _plain(place: SlotRegions) -> list[list[Any]]:
    return [[r.address, r.size, r.device, r.memory] for r in (place.payload, place.header)]


def _endpoint(role: str, slab: Slab, *, serving: bool) -> NixlEndpoint:
    name, enter = f"hop-{role}-{os.getpid()}", slab.bind_thread
    if not serving:
        return NixlEndpoint(name, slab.regions, bind_thread=enter)
    return NixlEndpoint(name, slab.regions, lambda _notice: None, lambda: True, bind_thread=enter)


async def reads(memory: str, count: int, windows: Sequence[int] = _WINDOWS) -> list[dict[str, Any]]:
    """Return a row for each number of windows per read: median and 99th percentile of `count`."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.load.hop", "--own", memory),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None and process.stdin is not None
    slab = _slab(memory)
    endpoint = _endpoint("reader", slab, serving=False)
    try:
        endpoint.start()
        while not (line := await process.stdout.readline()).startswith(b"{"):
            if not line:  # NIXL writes other lines
                raise RuntimeError(f"the owner of a slab in {memory} ended: see above")
        offer = json.loads(line)
        places = [SlotRegions(*(Region(*region) for region in place)) for place in offer["places"]]
        agent = offer["agent"], bytes.fromhex(offer["metadata"])
        return [
            await _row(memory, endpoint, agent, places[:number], slab, count) for number in windows
        ]
    finally:
        endpoint.close()
        process.stdin.close()
        await process.wait()


async def _row(
    memory: str,
    endpoint: NixlEndpoint,
    agent: tuple[str, bytes],
    remote: Sequence[SlotRegions],
    slab: Slab,
    count: int,
) -> dict[str, Any]:
    (name, metadata), windows = agent, len(remote)
    local = [slab.regions_of(slot, LENGTH) for slot in range(windows)]
    took: list[float] = []
    for _ in range(count + _WARM_UP):
        for slot in range(windows):
            slab.invalidate(slot)
        began = time.monotonic()
        request = ReadRequest(name, metadata, payloads_then_headers(remote, local), b"read", 5.0)
        await asyncio.wrap_future(endpoint.begin(request).outcome)
        for slot in range(windows):
            slab.verify(slot, _KEY, _GENERATION, LENGTH)
        took.append(1000 * (time.monotonic() - began))
        await asyncio.sleep(_PAUSE_SECONDS)
    for slot in range(windows):
        there = torch.as_tensor(slab.gather([(slot, LENGTH)])[0]).cpu().numpy()
        if not np.array_equal(there, content(slot)):
            raise TransferFailed(f"slot {slot} of a slab in {memory} differs from the bytes sent")
    measured = took[_WARM_UP:]
    return {
        "memory": memory,
        "windows": windows,
        "first_ms": took[0],
        "p50_ms": statistics.median(measured),
        "p99_ms": float(np.percentile(measured, 99)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--own", metavar="MEMORY", required=True, help="dram or vram")
    own(parser.parse_args().own)


if __name__ == "__main__":
    main()
