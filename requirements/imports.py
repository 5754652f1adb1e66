"""Try every import of an environment: `VENV/bin/python requirements/imports.py LOCK`.

Imports each package's modules in separate processes and prints the result: ok, needs a driver
(NVIDIA's, which machines that build images lack), needs … (an extra that the lock leaves out), or
the error. Exits with 1 if a package is missing, has another version than in the lock, or cannot be
imported for an unknown reason.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import select
import signal
import sys
import time
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

DEADLINE_S = 300.0  # per module
_DRIVER = re.compile(
    r"libcuda\.so|libnvidia-|libnvcuvid|NVIDIA driver|CUDA driver|no CUDA-?capable|No CUDA GPU",
    re.I,
)
_MODULE = re.compile(r"(\w+)(?:\.py|\.cpython-\w+-[\w-]+\.so|\.abi3\.so|\.so)")
_NOT_MODULES = {"tests", "test", "testing", "docs", "examples", "benchmarks", "scripts", "bin"}
# Extras of packages that the locks leave out.
_LEFT_OUT = {"redis", "kubernetes", "aisimulate", "sklearn"}
# Modules whose names differ from their files' paths.
_ELSEWHERE = {
    "nvidia-cutlass-dsl": ["cutlass"],
    "nvidia-cutlass-dsl-libs-base": ["cutlass"],
    "nvidia-cutlass-dsl-libs-core": ["cutlass"],
}


@dataclass(frozen=True)
class Result:
    """Result of the import of a package."""

    name: str
    state: str
    good: bool


def pins(lock: str) -> dict[str, str]:
    """Return the packages of a lock file and their versions."""
    lines = (line.partition("#")[0].strip() for line in lock.splitlines())
    return dict(line.split("==", 1) for line in lines if line)  # type: ignore[misc]


def modules(package: Distribution) -> list[str]:
    """Return a distribution's top-level importable modules: `grpc`, `google.rpc`."""
    files = [file for file in package.files or () if ".." not in file.parts]
    folders = {file.parent.parts for file in files if file.name == "__init__.py"}
    found = {
        ".".join(parts)
        for parts in folders
        if not any(parts[:n] in folders for n in range(1, len(parts)))
    }
    for file in files:
        if len(file.parts) == 1 and (match := _MODULE.fullmatch(file.name)):
            found.add(match[1])
    found = {name for name in found if all(part.isidentifier() for part in name.split("."))}
    public = {name for name in found if not name.startswith("_")}
    return sorted(n for n in public or found if n.partition(".")[0] not in _NOT_MODULES)


def attempt(name: str, deadline_s: float = DEADLINE_S) -> str:
    """Import a module in another process; return the error, empty on success."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os._exit(_import(name, reading, writing))
    os.close(writing)
    said, ends = b"", time.monotonic() + deadline_s
    while (left := ends - time.monotonic()) > 0 and select.select([reading], [], [], left)[0]:
        if not (more := os.read(reading, 4096)):
            break
        said += more
    else:
        os.kill(child, signal.SIGKILL)
        said = f"not done after {deadline_s:g} s".encode()
    os.close(reading)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return said.decode() or ("" if status == 0 else f"ended with status {status}")


def _import(name: str, reading: int, writing: int) -> int:
    os.close(reading)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    try:
        importlib.import_module(name)
    except BaseException as error:  # libraries raise any exception, SystemExit included
        said = " ".join(str(error).split())
        os.write(writing, f"{type(error).__name__}: {said[:300]}".encode())
        return 1
    return 0


def judge(said: str) -> tuple[str, bool]:
    """Return the state for an error, and whether it is expected on a machine without a GPU."""
    if not said:
        return "ok", True
    if _DRIVER.search(said):
        return f"needs a driver ({said})", True
    missing = re.search(r"No module named '(\w+)", said)
    if missing and missing[1] in _LEFT_OUT:
        return f"needs {missing[1]}, which is left out", True
    return said, False


def tried(name: str, wanted: str) -> Result:
    """Import one package of a lock file."""
    try:
        package = distribution(name)
    except PackageNotFoundError:
        return Result(name, "not installed", False)
    if package.version != wanted:
        return Result(name, f"{package.version} is installed, {wanted} is locked", False)
    if not (names := _ELSEWHERE.get(name) or modules(package)):
        return Result(name, "ok, has no module", True)
    judged = {module: judge(attempt(module)) for module in names}
    states = [f"{module}: {state}" for module, (state, _) in judged.items()]
    return Result(name, "; ".join(states), all(good for _, good in judged.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description="Tries every import of an environment.")
    parser.add_argument("lock", type=Path)
    options = parser.parse_args()
    results = []
    for name, wanted in pins(options.lock.read_text()).items():
        result = tried(name, wanted)
        results.append(result)
        print(f"{result.name}=={wanted}  {result.state}", flush=True)
    bad = [result.name for result in results if not result.good]
    driver = [result.name for result in results if "needs a driver" in result.state]
    print(f"{len(results)} packages; need a driver: {', '.join(driver) or 'none'}")
    if bad:
        sys.exit(f"not as they should be: {', '.join(bad)}")


if __name__ == "__main__":
    main()
