"""Makes SGLang importable: its variables, and stand-ins for modules that a CPU does not need.

Triton and SGLang's kernels exist for GPUs only. torchvision and IPython serve images and notebooks,
and PyPI's build of torchvision does not fit the CPU build of PyTorch. A stand-in is found only if
the module itself is not installed. Its functions act as decorators that change nothing, so that
kernels can be defined; none of them is ever launched.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_VARIABLES = {
    "HF_HUB_OFFLINE": "1",
    # The package with our model classes. Without it SGLang imports all of its own at its start.
    "SGLANG_EXTERNAL_MODEL_PACKAGE": "auricle.workers.pd.sglang",
    # Positions are checked before the start; these few more are never used.
    "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1",
}
_ABSENT = ("IPython", "sgl_kernel", "torchvision", "triton")


class _AnyClass(type):
    """A class with any attribute, that takes any arguments."""

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        return super().__call__()

    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return f"{cls.__name__}.{name}"


class _StandIn(ModuleType):
    """A module whose capitalised attributes are classes, and whose others are modules like it."""

    # Libraries look for both: it is a package, of some version.
    __version__ = "0"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name[0].isupper():
            return _AnyClass(name, (), {})
        full = f"{self.__name__}.{name}"
        return sys.modules.setdefault(full, _StandIn(full))

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Leave a decorated function unchanged: as `@jit` or as `@jit(...)`."""
        if len(arguments) == 1 and callable(arguments[0]) and not named:
            return arguments[0]
        return lambda function: function

    def __iter__(self) -> Iterator[Any]:
        return iter(())


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, path: object = None, target: object = None) -> Any:
        if fullname.partition(".")[0] in _ABSENT:
            return ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: attributes are made when they are read."""


def prepare_imports(*, on_gpu: bool) -> None:
    """Make SGLang importable in this process, before transformers is imported."""
    os.environ.update(_VARIABLES)
    if not on_gpu:
        os.environ["SGLANG_USE_CPU_ENGINE"] = "1"
        sys.meta_path.append(_Finder())  # after all other ways to find a module
    # Of kernels that a CPU does not have.
    warnings.filterwarnings("ignore", category=UserWarning, module="sglang")
    logging.getLogger("sglang").setLevel(logging.ERROR)
