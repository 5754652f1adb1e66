"""GPU memory that other processes can open: all CUDA calls that slabs need.

The driver allocates it instead of PyTorch, whose allocations may be parts of larger ones, or mapped
in a way that CUDA IPC cannot share. PyTorch accesses it through the CUDA array interface.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import torch

from auricle.core.errors import ProcessFailed
from auricle.embeddings.memory import DeviceMemory
from auricle.embeddings.reads import Region

_OPEN_FLAGS = 1  # CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, the only ones there are


class IpcHandle(ctypes.Structure):
    """CUipcMemHandle, by which another process opens memory."""

    _fields_ = (("reserved", ctypes.c_ubyte * 64),)


class CudaDriver:
    """Calls of libcuda that PyTorch does not wrap; the calling thread must have a context."""

    def __init__(self, library: Any = None) -> None:
        self._library = library or ctypes.CDLL("libcuda.so.1")

    def allocate(self, size: int) -> int:
        """Return the address of `size` bytes of the current GPU."""
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def export(self, address: int) -> bytes:
        handle = IpcHandle()
        self._call("cuIpcGetMemHandle", ctypes.byref(handle), ctypes.c_uint64(address))
        return bytes(handle)

    def open(self, handle: bytes) -> int:
        """Map another process's allocation; returns its address in this process."""
        address = ctypes.c_uint64()
        theirs = IpcHandle.from_buffer_copy(handle)
        self._call(
            "cuIpcOpenMemHandle_v2", ctypes.byref(address), theirs, ctypes.c_uint(_OPEN_FLAGS)
        )
        return address.value

    def free(self, address: int) -> None:
        self._call("cuMemFree_v2", ctypes.c_uint64(address))

    def close(self, address: int) -> None:
        self._call("cuIpcCloseMemHandle", ctypes.c_uint64(address))

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        if status == 0:
            return
        text = ctypes.c_char_p()
        self._library.cuGetErrorName(status, ctypes.byref(text))
        reason = text.value.decode() if text.value else f"status {status}"
        raise ProcessFailed(f"CUDA error: {name} returned {reason}")


@dataclass(frozen=True)
class _Array:
    """Bytes at an address, by the CUDA array interface."""

    address: int
    size: int

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": (self.size,),
            "typestr": "|u1",
            "data": (self.address, False),
            "version": 3,
        }


class CudaMemory(DeviceMemory):
    """Memory of the GPU `device` (cuda, cuda:1).

    With the handle `theirs` it is another process's memory, which is mapped on first use.
    """

    kind = "cuda"

    def __init__(self, device: str, size: int, theirs: bytes | None = None) -> None:
        self._index = torch.device(device).index or 0
        self._size = size
        self._theirs = theirs
        self._driver: CudaDriver | None = None
        self._address = 0
        self._tensor: torch.Tensor | None = None

    @classmethod
    def allocate(cls, device: str, size: int) -> CudaMemory:
        """Allocate memory of a GPU. Raises ProcessFailed if too little is free."""
        memory = cls(device, size)
        memory._map()
        return memory

    @classmethod
    def open(cls, handle: str) -> CudaMemory:
        """Open another process's memory, on the GPU of the same number."""
        index, size, theirs = handle.split(" ")
        return cls(f"cuda:{index}", int(size), bytes.fromhex(theirs))

    @property
    def bytes(self) -> torch.Tensor:
        return self._tensor if self._tensor is not None else self._map()

    @property
    def region(self) -> Region:
        return Region(self._address, self._size, self._index, "VRAM")

    def handle(self) -> str:
        assert self._driver is not None
        self.bind_thread()
        return f"{self._index} {self._size} {self._driver.export(self._address).hex()}"

    def bind_thread(self) -> None:
        torch.cuda.set_device(self._index)
        torch.cuda.current_stream().synchronize()  # creates the context on first use

    def synchronize(self) -> None:
        # Blocking: by default the wait would keep a core busy.
        event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._index))
        event.synchronize()

    def close(self) -> None:
        if self._driver is None:
            return
        self.bind_thread()
        torch.cuda.synchronize(self._index)  # copies from it may be in progress
        self._tensor = None
        if self._theirs is None:
            self._driver.free(self._address)
        else:
            self._driver.close(self._address)
        self._driver = None

    def _map(self) -> torch.Tensor:
        self.bind_thread()
        driver = CudaDriver()
        if self._theirs is None:
            self._address = driver.allocate(self._size)
        else:
            self._address = driver.open(self._theirs)
        self._driver = driver  # only now: a failed open must not be closed
        array = _Array(self._address, self._size)
        self._tensor = torch.as_tensor(array, device=f"cuda:{self._index}")
        return self._tensor
