"""A graph with an align pool."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from auricle_testing.server import ROOT, leaving_nothing

START_SECONDS = 300
Start = Callable[[str], subprocess.Popen[bytes]]


@contextmanager
def starting(path: Path, discovery: Path, *options: str) -> Iterator[Start]:
    with leaving_nothing() as marked, ExitStack() as running:
        environment = os.environ | marked | {"AURICLE_SUPERVISED": "1"}

        def start(component: str) -> subprocess.Popen[bytes]:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "auricle", "component", component),
                    *("-f", "configs/demo.yaml", f"--Common.align_model={path}"),
                    f"--Common.discovery_path={discovery}",
                    "--Common.load_report_seconds=0.5",
                    *options,
                ],
                cwd=ROOT,
                env=environment,
            )

            def stop() -> None:
                process.kill()
                process.wait()

            running.callback(stop)
            return process

        yield start
