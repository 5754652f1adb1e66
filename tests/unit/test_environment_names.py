"""Each environment variable that we set is one that its library reads.

Nothing else would detect a misspelt name: a library ignores unknown variables, and the graph works
if the same value is also set in another way.
"""

from __future__ import annotations

import ast
import mmap
import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from auricle_testing.server import ROOT

pytestmark = pytest.mark.unit
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+|HOME|TMPDIR|PYTHON[A-Z]+")
_SETTERS = {"setdefault", "putenv"}
# Names that no file of an installed package contains: ours, and names of the C library, Python,
# pip, OpenMP, oneDNN, CUDA and Hugging Face.
_OTHERS = {
    *("AURICLE_SUPERVISED", "AURICLE_MODELS", "HOME", "TMPDIR", "MALLOC_ARENA_MAX"),
    *("PYTHONUNBUFFERED", "PYTHONWARNINGS", "PIP_RESUME_RETRIES"),
    *("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"),
    *("CUDA_VISIBLE_DEVICES", "HF_HUB_OFFLINE"),
}


def names_set_in(source: str) -> set[str]:
    """Names in the places where variables are set: keys of a dict, `setdefault`, `environ[…] =`."""
    found: list[ast.expr | None] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Dict):
            found += node.keys
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            found += node.args[:1] if node.func.attr in _SETTERS else []
        elif isinstance(node, ast.Assign):
            subscripts = [t for t in node.targets if isinstance(t, ast.Subscript)]
            found += [target.slice for target in subscripts]
    texts = {node.value for node in found if isinstance(node, ast.Constant)}
    return {text for text in texts if isinstance(text, str) and _VARIABLE.fullmatch(text)}


# They look like variables: data types of safetensors.
_NO_VARIABLES = {"F8_E4M3", "F8_E5M2"}


def names_set() -> set[str]:
    files = (ROOT / "components/auricle").rglob("*.py")
    return set().union(*(names_set_in(path.read_text()) for path in files)) - _NO_VARIABLES


def packages() -> Path:
    spec = find_spec("nixl")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parents[1]


def has(path: Path, text: bytes) -> bool:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(text) >= 0


def in_dynamo(name: str) -> bool:
    """Rust stores its strings without separators, so the end of a name cannot be seen."""
    return has(packages() / "dynamo/_core.abi3.so", name.encode())


@cache
def _vllm() -> str:
    return (packages() / "vllm/envs.py").read_text()


def in_vllm(name: str) -> bool:
    return f'"{name}": ' in _vllm()


def in_ucx(name: str) -> bool:
    """UCX composes its names: `UCX_`, a table's prefix such as `TCP_`, and the entry's name."""
    entry = name.removeprefix("UCX_").removeprefix("TCP_").removeprefix("CUDA_IPC_").encode()
    kinds = ("libuc[pst]-*.so*", "ucx/libuct_cuda.so*")
    libraries = [path for kind in kinds for path in packages().glob(f"nixl_cu*.libs/{kind}")]
    return any(has(path, b"\0" + entry + b"\0") for path in libraries)


def in_nixl(name: str) -> bool:
    libraries = packages().glob(".nixl_cu*.mesonpy.libs/lib*.so")
    return any(has(path, name.encode() + b"\0") for path in libraries)


def in_grpc(name: str) -> bool:
    libraries = packages().glob("grpc/_cython/cygrpc*.so")
    return any(has(path, name.encode() + b"\0") for path in libraries)


def in_torch(name: str) -> bool:
    return has(packages() / "torch/lib/libc10.so", name.encode() + b"\0")


def in_sglang(name: str) -> bool:
    """Most variables are attributes of a class; the kind of device is read where it is needed."""
    files = (packages() / "sglang/srt" / path for path in ("environ.py", "utils/common.py"))
    text = "".join(path.read_text() for path in files)
    return re.search(rf"^ +{name} = |[\"']{name}[\"']", text, re.MULTILINE) is not None


_READERS = {
    "SGLANG_": in_sglang,
    "DYN_": in_dynamo,
    "ETCD_": in_dynamo,
    "NATS_": in_dynamo,
    "VLLM_": in_vllm,
    "UCX_": in_ucx,
    "NIXL_": in_nixl,
    "GRPC_": in_grpc,
    "TORCH_": in_torch,
}


def is_read(name: str) -> bool:
    """Whether the library of a variable reads it."""
    readers: Iterator[bool] = (
        known(name) for prefix, known in _READERS.items() if name.startswith(prefix)
    )
    return name in _OTHERS or any(readers)


@pytest.mark.parametrize("name", sorted(names_set()))
def test_what_we_set_is_read_by_the_library_it_is_meant_for(name: str) -> None:
    if name.startswith("SGLANG_") and find_spec("sglang") is None:
        pytest.skip("sglang is not installed")
    assert is_read(name), f"no library reads {name}; is it spelt right?"


@pytest.mark.parametrize(
    "name",
    [
        *("DYNREQUEST_PLANE", "DYN_REQUEST_PLAN_", "DYN_TCP_HOST_RPC", "ETCD_ENDPOINT_S"),
        *("VLLM_HOST", "UCX_NET_DEVICE", "UCX_TCP_PORTRANGE", "NIXL_LOGLEVEL", "OMP_THREADS"),
        "GRPC_VERBOSE",
    ],
)
def test_a_misspelt_name_is_found(name: str) -> None:
    assert not is_read(name)


def test_all_places_where_variables_are_set_are_seen() -> None:
    assert {
        "DYN_REQUEST_PLANE",  # the dict of a function
        "DYN_LOG",  # setdefault
        "OMP_NUM_THREADS",  # environ[…] =
        "UCX_TCP_PORT_RANGE",  # an item added to a dict, for Kubernetes
        "VLLM_PLUGINS",
        "ETCD_LEASE_TTL",
    } <= names_set()
