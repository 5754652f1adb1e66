"""Reads `model.bin` of CTranslate2, the format of faster-whisper's Whisper models."""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auricle.core.errors import CheckpointError

Array = NDArray[Any]
_VERSION = 6
# By CTranslate2's numbers of data types (types.h); numpy lacks the last, bfloat16.
_DTYPES = (np.float32, np.int8, np.int16, np.int32, np.float16, np.uint16)
_BFLOAT16 = 5


@dataclass(frozen=True)
class Variables:
    """The variables of a model by name, as views of the file; `spec` is the kind of model."""

    spec: str
    arrays: dict[str, Array]

    def floats(self, name: str) -> Array:
        """Return a weight as floating-point numbers, dequantized if necessary."""
        array = self[name]
        scale = self.arrays.get(f"{name}_scale")
        if scale is None:
            return array
        rows = scale.astype(np.float32).reshape(-1, *[1] * (array.ndim - 1))
        return np.asarray(array.astype(np.float32) / rows)

    def number(self, name: str) -> int:
        return int(self[name])

    def __getitem__(self, name: str) -> Array:
        if name not in self.arrays:
            raise CheckpointError(f"model.bin lacks `{name}`")
        return self.arrays[name]


def is_ctranslate2(folder: Path) -> bool:
    return (folder / "model.bin").is_file() and not any(folder.glob("*.safetensors"))


def read_variables(path: Path) -> Variables:
    """Read a `model.bin`. Raises CheckpointError if it is malformed or of another version."""
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return _Reader(data).variables()
    except (OSError, ValueError, IndexError, struct.error) as error:
        raise CheckpointError(f"{path} is not a readable model of CTranslate2: {error}") from None


class _Reader:
    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = 0

    def variables(self) -> Variables:
        version = self._number("I")
        if version != _VERSION:
            raise ValueError(f"its format is {version}, but {_VERSION} is read")
        spec, _revision = self._text(), self._number("I")
        arrays: dict[str, Array] = {}
        for _ in range(self._number("I")):
            name = self._text()
            arrays[name] = self._array()
        for _ in range(self._number("I")):
            alias, target = self._text(), self._text()
            if target not in arrays:
                raise ValueError(f"`{alias}` stands for `{target}`, which is not there")
            arrays[alias] = arrays[target]
        if self._at != len(self._data):
            raise ValueError(f"{len(self._data) - self._at} bytes follow its end")
        return Variables(spec, arrays)

    def _array(self) -> Array:
        shape = [self._number("I") for _ in range(self._number("B"))]
        kind, size = self._number("B"), self._number("I")
        dtype = np.dtype(_DTYPES[kind])
        if prod(shape) * dtype.itemsize != size:
            raise ValueError(f"an array of shape {shape} has {size} bytes")
        array = np.frombuffer(self._data, dtype, prod(shape), self._skip(size)).reshape(shape)
        if kind != _BFLOAT16:
            return array
        return (array.astype(np.uint32) << 16).view(np.float32)

    def _number(self, kind: str) -> int:
        size = struct.calcsize(f"<{kind}")
        return int(struct.unpack_from(f"<{kind}", self._data, self._skip(size))[0])

    def _text(self) -> str:
        size = self._number("H")
        start = self._skip(size)
        return self._data[start : start + size].rstrip(b"\0").decode()

    def _skip(self, size: int) -> int:
        """Advance by `size` bytes; returns their offset."""
        start = self._at
        self._at += size
        if self._at > len(self._data):
            raise ValueError("it is cut short")
        return start
