"""The rate of reads of embeddings below which something slows them down."""

from __future__ import annotations

GPU = "GPU"  # as in `Transfers.memory`; the other kind of memory is the host's
# Between GPUs: tens of GB/s over CUDA IPC (PCIe or NVLink), 12 over RDMA at 100 Gb/s. If UCX copies
# through the host instead, 0.5 GB/s: both here, on an H200 (benchmarks/RESULTS.md), and in vLLM's
# issue 52607. 10 Gb/s Ethernet stays below 1.25.
_BETWEEN_GPUS = 1e9
# A live session reads about 0.2 MB/s, so this is enough for 500 of them, and 1 Gb/s Ethernet has
# 0.125 GB/s. Host memory of one machine gives more than ten times as much.
_OTHERWISE = 0.1e9


def least_rate(owner: str, reader: str) -> float:
    """Return the least rate, in bytes per second, between these kinds of memory."""
    return _BETWEEN_GPUS if owner == reader == GPU else _OTHERWISE


def causes(owner: str, reader: str, *, same_host: bool) -> str:
    """Return what makes reads slower than that, and what to change."""
    if owner == reader == GPU and same_host:
        return (
            "UCX probably copies through the host instead of using CUDA IPC: the processes must "
            "see each other's GPUs, and containers share /dev/shm, PID and IPC namespaces. Leave "
            "UCX_CUDA_IPC_ENABLE_GET_ZCOPY and UCX_TLS unset, or set Common.slab to host."
        )
    if owner == reader == GPU:
        return (
            "RDMA probably does not reach the GPUs: it needs the kernel module nvidia-peermem or "
            "dmabuf, and an RDMA device of the processes (UCX_NET_DEVICES). Otherwise set "
            "Common.slab to host."
        )
    if same_host:
        return (
            "The machine probably was busy, or UCX uses TCP instead of shared memory: containers "
            "must share /dev/shm and the IPC namespace. Restart one of the two to time it again."
        )
    return (
        "The network between the hosts is slow or busy. Give the processes an RDMA device, or a "
        "faster interface (UCX_NET_DEVICES)."
    )
