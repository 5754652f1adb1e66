"""What this machine's processor computes with, by the flags that Linux reports."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
# x86-64's AVX512-BF16 and AMX, and ARM's extension.
_BFLOAT16 = frozenset({"avx512_bf16", "amx_bf16", "bf16"})


@cache
def multiplies_bfloat16(cpuinfo: Path = _CPUINFO) -> bool:
    """Return whether the processor multiplies bfloat16; without, float32 is faster.

    False where the flags cannot be read.
    """
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return False
    flags = (line.partition(":")[2] for line in lines if line.lower().startswith(("flags", "feat")))
    return bool(_BFLOAT16 & set(next(flags, "").split()))
