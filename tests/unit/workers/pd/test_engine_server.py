"""Processes of vLLM's engine are forked from a server, with the environment of their parent."""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing.connection import Connection

import pytest

from auricle.workers.pd.vllm import engine_server

pytestmark = pytest.mark.unit
SECONDS = 30


def say(to: Connection) -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    to.send((os.environ.get("SET_LATER"), os.environ.get("UNSET_LATER"), parent.pid))


def test_a_process_has_the_environment_of_when_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_server, "_PRELOAD", [])
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("UNSET_LATER", "1")
    engine_server.start(1)
    monkeypatch.setenv("SET_LATER", "1")
    monkeypatch.delenv("UNSET_LATER")
    mine, theirs = multiprocessing.Pipe(duplex=False)
    process = engine_server.ForkedContext().Process(
        target=say, kwargs={"to": theirs}, name="engine"
    )
    process.start()
    assert mine.poll(SECONDS)
    assert mine.recv() == ("1", None, os.getpid())
    process.join(SECONDS)
    assert process.exitcode == 0


def test_starting_the_server_leaves_what_is_loaded_first_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(engine_server, "_PRELOAD", [])
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(
        engine_server.forkserver, "ensure_running", lambda: seen.append(os.environ["LD_PRELOAD"])
    )
    for before in (None, "/lib/mine.so"):
        if before is None:
            monkeypatch.delenv("LD_PRELOAD", raising=False)
        else:
            monkeypatch.setenv("LD_PRELOAD", before)
        engine_server.start(1)
        assert os.environ.get("LD_PRELOAD") == before
    assert [one.partition(":")[0] for one in seen][1] == "/lib/mine.so"
    assert all("libgomp" in one for one in seen)
