"""Processes of vLLM's engine are forked from a server, with the environment of their parent."""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from auricle.workers.pd.vllm import engine_server

pytestmark = pytest.mark.unit
SECONDS = 60
LIGHT = "colorsys"  # in place of vLLM; nothing else imports it


def found_by_the_engine() -> dict[str, Any]:
    """Start the server and an engine's process; return the state of that process.

    For a process without other threads.
    """
    engine_server.PRELOADED = LIGHT
    os.environ["UNSET_LATER"] = "1"
    with tempfile.NamedTemporaryFile() as left_open:
        engine_server.start(1)
        os.environ["SET_LATER"] = "1"
        del os.environ["UNSET_LATER"]
        # A lock that another thread holds for ever must not be held in the engine's process.
        held = threading.Lock()
        threading.Thread(target=held.acquire).start()
        mine, theirs = multiprocessing.Pipe(duplex=False)
        process = engine_server.ForkedContext().Process(
            target=say, kwargs={"to": theirs, "file": left_open.name}, name="engine"
        )
        process.start()
        assert mine.poll(SECONDS)
        found: dict[str, Any] = mine.recv()
        process.join(SECONDS)
    return found | {"exit code": process.exitcode, "parent": found["parent"] == os.getpid()}


def say(to: Connection, file: str) -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    to.send(
        {
            "set later": os.environ.get("SET_LATER"),
            "unset later": os.environ.get("UNSET_LATER"),
            "threads": os.environ["OMP_NUM_THREADS"],
            "parent": parent.pid,
            "imported": LIGHT in sys.modules,
            "left open": any(
                one.exists() and one.samefile(file) for one in Path("/proc/self/fd").iterdir()
            ),
            "shares OpenMP": hasattr(ctypes.CDLL(None), "GOMP_parallel"),
        }
    )


def test_a_process_has_the_imports_of_the_server_and_the_environment_of_when_it_is_made() -> None:
    run = subprocess.run(
        [sys.executable, __file__], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == {
        "set later": "1",
        "unset later": None,
        "threads": "1",
        "parent": True,
        "imported": True,
        "left open": False,
        "shares OpenMP": True,
        "exit code": 0,
    }


def test_the_server_is_not_forked_from_a_process_with_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_server, "PRELOADED", LIGHT)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    may_end = threading.Event()
    other = threading.Thread(target=may_end.wait, name="other")
    other.start()
    try:
        with pytest.raises(RuntimeError, match=r"forked before .*other"):
            engine_server.start(1)
    finally:
        may_end.set()
        other.join()


if __name__ == "__main__":
    print(json.dumps(found_by_the_engine()))
