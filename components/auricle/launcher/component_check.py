"""`auricle component NAME --check`: whether the component could serve, without serving.

At the top it imports nothing that needs a library, so that it can say which one is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from auricle.errors import AuricleError
from auricle.process.needs import Need, imports

if TYPE_CHECKING:
    from auricle.settings import CommonSettings


def check_component(name: str, config: Path | None, overrides: Sequence[str]) -> bool:
    """Print a line for each part of what the component needs; return whether all of it is there.

    Changes the process's environment as `run_component` does. Uses no device, connects to
    nothing, writes no file and starts no component. Blocks for seconds.
    """
    start = imports("auricle.launcher.component", "auricle.runtime.secrets")
    if not _is_met(start, silent=True):
        return False
    from auricle.launcher.component import component_settings, needs_of, set_environment

    try:
        settings = component_settings(name, config, overrides)
    except AuricleError as error:
        print(f"configuration: FAILED: {error}")
        return False
    set_environment(name, settings)
    source = str(config or "the command line")
    needs = [Need("configuration", partial(_files, source, settings)), *needs_of(name, settings)]
    unmet = [need for need in needs if not _is_met(need)]
    return not unmet


def _is_met(need: Need, *, silent: bool = False) -> bool:
    try:
        found = need.check()
    except (AuricleError, ImportError) as error:
        print(f"{need.what}: FAILED: {error}", flush=True)
        return False
    if not silent:
        print(f"{need.what}: {found}", flush=True)
    return True


def _files(source: str, settings: CommonSettings) -> str:
    from auricle.runtime.secrets import secrets_of

    if settings.secret_file is not None or settings.discovery != "file":
        secrets_of(settings)  # with the file discovery it would make one
    return f"{source} is valid"
