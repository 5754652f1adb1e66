"""A read of embeddings between two processes over NIXL: device memory to device memory, and host.

A window of the 0.6B geometry (104 × 1024, bfloat16), in the two steps of every read, and verified
as its kind of slab is: in host memory by the header and its checksum, on a GPU by the header, which
the second step has read and which proves the first. `benchmarks.load.hop` is the same over host
memory alone, without a GPU's environment.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from auricle.core.errors import TransferFailed
from auricle.embeddings.layout import SlabLayout
from auricle.embeddings.nixl import NixlEndpoint
from auricle.embeddings.reads import ReadRequest, Region, SlotRegions, payloads_then_headers
from auricle.embeddings.slab import Slab
from auricle.embeddings.slabs import new_slab
from benchmarks.gpu.device import Device
from benchmarks.gpu.found import Found, Task

_LENGTH = 104
_LAYOUT = SlabLayout(1024, 2, _LENGTH)
_KEY, _GENERATION = "ab" * 24, 1
_WINDOWS = (1, 4, 13)  # of a read: the growing one, a segment that moves, many segments
_WARM_UP = 5
_PAUSE_SECONDS = 0.002


def _content(slot: int) -> np.ndarray:
    """Return bytes of which no two slots have the same."""
    values = np.arange(_LAYOUT.payload_bytes(_LENGTH), dtype=np.uint32) * (2 * slot + 1)
    return (values % 251).astype(np.uint8)


def _slab(memory: str) -> Slab:
    device = "cuda" if memory == "vram" else None
    return new_slab(_LAYOUT, max(_WINDOWS), device=device, shared=False)


def own(memory: str) -> None:
    """Run the owner process: offer slots until its standard input ends."""
    slab = _slab(memory)
    for slot in range(slab.count):
        slab.write(slot, _KEY, _GENERATION, _content(slot))
    # As the encode worker while leases are open: it makes progress for its readers.
    endpoint = _endpoint("owner", slab, serving=True)
    try:
        told = {
            "agent": endpoint.name,
            "metadata": endpoint.start().hex(),
            "places": [_plain(slab.regions_of(slot, _LENGTH)) for slot in range(slab.count)],
        }
        print(json.dumps(told), flush=True)
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


async def reads(memory: str, count: int) -> list[dict[str, Any]]:
    """Return what reads of each number of windows take."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.gpu.hop", "--own", memory),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None and process.stdin is not None
    slab = _slab(memory)
    endpoint = _endpoint("reader", slab, serving=False)
    try:
        endpoint.start()
        while not (line := await process.stdout.readline()).startswith(b"{"):
            if not line:  # others are NIXL's own
                raise RuntimeError(f"the owner of a slab in {memory} ended: see above")
        told = json.loads(line)
        places = [SlotRegions(*(Region(*region) for region in place)) for place in told["places"]]
        agent = told["agent"], bytes.fromhex(told["metadata"])
        return [
            await _row(memory, windows, endpoint, agent, places[:windows], slab, count)
            for windows in _WINDOWS
        ]
    finally:
        endpoint.close()
        process.stdin.close()
        await process.wait()


async def _row(
    memory: str,
    windows: int,
    endpoint: NixlEndpoint,
    agent: tuple[str, bytes],
    remote: Sequence[SlotRegions],
    slab: Slab,
    count: int,
) -> dict[str, Any]:
    name, metadata = agent
    local = [slab.regions_of(slot, _LENGTH) for slot in range(windows)]
    took: list[float] = []
    for _ in range(count + _WARM_UP):
        for slot in range(windows):
            slab.invalidate(slot)
        began = time.monotonic()
        request = ReadRequest(name, metadata, payloads_then_headers(remote, local), b"read", 5.0)
        await asyncio.wrap_future(endpoint.begin(request).outcome)
        for slot in range(windows):
            slab.verify(slot, _KEY, _GENERATION, _LENGTH)
        took.append(1000 * (time.monotonic() - began))
        await asyncio.sleep(_PAUSE_SECONDS)
    for slot in range(windows):
        there = torch.as_tensor(slab.gather([(slot, _LENGTH)])[0]).cpu().numpy()
        if not np.array_equal(there, _content(slot)):
            raise TransferFailed(f"slot {slot} of a slab in {memory} is not what was sent")
    measured = took[_WARM_UP:]
    return {
        "memory": memory,
        "windows": windows,
        "first_ms": took[0],
        "p50_ms": statistics.median(measured),
        "p99_ms": float(np.percentile(measured, 99)),
    }


def host_way(task: Task) -> dict[str, float]:
    """Return the milliseconds of what a window's way over host memory adds to its read.

    The encode worker copies it from the device and computes its checksum; the PD worker computes
    that again and copies the window to the device.
    """
    device, seconds = Device(task.device), task.scale.seconds / 8
    window = torch.zeros(_LENGTH, _LAYOUT.width, dtype=torch.bfloat16, device=device.torch)
    pageable = torch.empty(window.shape, dtype=window.dtype)
    pinned = torch.empty(window.shape, dtype=window.dtype, pin_memory=task.on_gpu)
    content = _content(0)
    steps: dict[str, Callable[[], object]] = {
        "from_device": lambda: pinned.copy_(window),
        "checksum": lambda: zlib.crc32(content.data),
        "checksum_again": lambda: zlib.crc32(content.data),
        "to_device": lambda: window.copy_(pageable),
    }
    return {name: 1000 * device.median_seconds(step, seconds) for name, step in steps.items()}


def measure(task: Task) -> Found:
    """Measure both kinds of memory; figures are of reads of one window."""
    found = Found()
    for memory in ("dram", "vram"):
        rows, why_not = _reads_or_why_not(memory, task)
        found.details[memory] = rows
        for what in ("p50_ms", "p99_ms"):
            found.put(f"hop_{memory}_{what}", rows[0][what] if rows else None, why_not)
    found.details["host_way_ms"] = way = host_way(task)
    found.put("hop_host_way_ms", sum(way.values()))
    return found


def _reads_or_why_not(memory: str, task: Task) -> tuple[list[dict[str, Any]], str]:
    """Return the rows, or why there are none: a driver may not let others read a GPU's memory."""
    if memory == "dram":
        rows = asyncio.run(reads(memory, task.scale.reads))
    elif not task.on_gpu:
        return [], "no GPU"
    else:
        try:
            rows = asyncio.run(reads(memory, task.scale.reads))
        except Exception as error:  # NIXL raises its own types
            return [], f"{type(error).__name__}: {error}"
    print(*rows, sep="\n", flush=True)
    return rows, ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--own", metavar="MEMORY", required=True, help="dram or vram")
    own(parser.parse_args().own)


if __name__ == "__main__":
    main()
