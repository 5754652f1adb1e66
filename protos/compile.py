"""Compile protos/ for the frontend: `python protos/compile.py`, which needs grpcio-tools.

The result is a FileDescriptorSet. The frontend creates its message classes from it at startup.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

PROTOS = Path(__file__).parent
COMPILED = PROTOS.parent / "components/auricle/frontend/transport/grpc/descriptors.binpb"


def compiled() -> bytes:
    """Return the descriptors of all files, each after those that it imports.

    The compiler runs in its own process, because it cannot be loaded next to NIXL's libraries.
    """
    sources = sorted(str(path.relative_to(PROTOS)) for path in PROTOS.rglob("*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "descriptors"
        options = [f"--proto_path={PROTOS}", f"--descriptor_set_out={result}"]
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *options, *sources], check=True)
        return result.read_bytes()


if __name__ == "__main__":
    COMPILED.write_bytes(compiled())
