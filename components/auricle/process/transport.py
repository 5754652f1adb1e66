"""The kinds of transport that UCX may use for this process's transfers.

NIXL does not report UCX's choice, so this lists the kinds that the machine and the environment
permit.
"""

from __future__ import annotations

import logging
import os
import re
import resource
from collections.abc import Collection
from pathlib import Path

from auricle.protocol.diagnosis import Transfers

log = logging.getLogger(__name__)

RDMA, TCP, SHARED_MEMORY = "RDMA", "TCP", "shared memory"
CUDA_IPC = "CUDA IPC"
_ALL = frozenset({RDMA, TCP, SHARED_MEMORY})
# By the names in UCX_TLS; RDMA's also come with suffixes (rc_mlx5, dc_x).
_KINDS = {
    **dict.fromkeys(("ib", "rc", "ud", "dc", "srd", "gga"), RDMA),
    "tcp": TCP,
    **dict.fromkeys(("sm", "shm", "mm", "posix", "sysv", "xpmem", "cma", "knem"), SHARED_MEMORY),
}
# The names of all transports of a kind: forbidding a part of them forbids no kind.
_WHOLE = {"ib": RDMA, "tcp": TCP, "sm": SHARED_MEMORY, "shm": SHARED_MEMORY}
_CUDA_IPC = frozenset({"cuda", "cuda_ipc"})
_CUDA_MEMORY = frozenset({"cuda", "cuda_copy"})
# Within one process, or for device memory only.
_OTHERS = ("self", "cuda", "gdr", "rocm", "ze")
_DEVICES = Path("/sys/class/infiniband")
_STATUS = Path("/proc/self/status")
_CAP_IPC_LOCK = 14  # linux/capability.h


def transfers(agent: str, backends: tuple[str, ...], *, on_device: bool) -> Transfers:
    """Describe the transfers of this process's NIXL `agent` by its `backends`, and log it at start.

    `on_device`: embeddings are on a GPU. Reads a directory of /sys.
    """
    allowed = os.environ.get("UCX_TLS", "")
    devices = os.environ.get("UCX_NET_DEVICES", "")
    rdma = [device.name for device in _DEVICES.iterdir()] if _DEVICES.is_dir() else []
    kinds = possible(allowed, devices, rdma, on_device=on_device)
    found = Transfers(backends, kinds, allowed, devices, "GPU" if on_device else "host", agent)
    _log(found)
    if RDMA in kinds and (wrong := memory_lock_trouble(*_memory_lock())) is not None:
        log.warning("%s", wrong)
    return found


def memory_lock_trouble(limit: int, privileged: bool) -> str | None:
    """Return why a limit of locked memory (bytes, -1 for none) is too low for RDMA.

    `privileged` processes (CAP_IPC_LOCK) have none. None if it suffices.
    """
    if privileged or limit == resource.RLIM_INFINITY:
        return None
    return (
        f"RDMA locks the memory that it reads, but the limit of locked memory is {limit >> 10} KiB "
        "(ulimit -l): NIXL may fail to register embeddings. Set LimitMEMLOCK=infinity for the "
        "service, or for the container runtime"
    )


def _memory_lock() -> tuple[int, bool]:
    """Return this process's limit of locked memory, and whether it is exempt."""
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", _STATUS.read_text(), re.MULTILINE)
    return limit, bool(found and int(found[1], 16) >> _CAP_IPC_LOCK & 1)


def _log(found: Transfers) -> None:
    log.info(
        "embeddings are in the memory of the %s; NIXL over %s, transport %s",
        *(
            found.memory,
            ", ".join(found.backends) or "nothing",
            " or ".join(found.possible) or "none",
        ),
    )


def possible(
    allowed: str, devices: str, rdma: Collection[str], *, on_device: bool = False
) -> tuple[str, ...]:
    """Return the kinds that UCX may use, for embeddings on a GPU or in host memory.

    `allowed` and `devices` are the values of UCX_TLS and UCX_NET_DEVICES, empty for anything;
    `rdma` are the machine's RDMA devices.
    """
    kinds = _allowed_kinds(allowed)
    if not rdma or not _names_one_of(devices, rdma):
        kinds -= {RDMA}
    if on_device and _allows_one_of(_CUDA_IPC, allowed):
        kinds |= {CUDA_IPC}
    return tuple(sorted(kinds))


def allows_cuda_memory(allowed: str) -> bool:
    """Whether UCX with this UCX_TLS can tell memory of a GPU from the host's."""
    return _allows_one_of(_CUDA_MEMORY, allowed)


def _allows_one_of(transports: frozenset[str], allowed: str) -> bool:
    text = allowed.strip()
    names = {name.strip().lstrip("\\") for name in text.removeprefix("^").split(",")}
    if text.startswith("^"):
        return not names & transports
    return not text or "all" in names or bool(names & transports)


def _allowed_kinds(allowed: str) -> frozenset[str]:
    text = allowed.strip()
    if text.startswith("^"):  # all but these
        return _ALL - {
            _WHOLE[name.strip()] for name in text[1:].split(",") if name.strip() in _WHOLE
        }
    kinds, unknown = _kinds(text)
    return _ALL if unknown or not text else kinds


def _kinds(names: str) -> tuple[frozenset[str], bool]:
    """Return the kinds of these names, and whether there are names that are not known."""
    kinds, unknown = set(), False
    for name in names.split(","):
        first = name.strip().lstrip("\\").partition("_")[0]
        if first in _KINDS:
            kinds.add(_KINDS[first])
        elif first not in _OTHERS:
            unknown = True
    return frozenset(kinds), unknown


def _names_one_of(devices: str, rdma: Collection[str]) -> bool:
    names = [name.strip().partition(":")[0] for name in devices.split(",") if name.strip()]
    return not names or "all" in names or any("*" in n or n in rdma for n in names)
