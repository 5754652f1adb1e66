"""The thread that drives NIXL: callers are notified of its death. NIXL is a fake."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from types import ModuleType, SimpleNamespace

import pytest

from auricle.core.errors import ProcessFailed, TransferFailed
from auricle.embeddings.nixl import NixlEndpoint
from auricle.embeddings.reads import READING, ReadRequest, Region, Step

pytestmark = pytest.mark.unit
REGION = Region(4096, 64)
STEP = Step((REGION,), (REGION,))
REQUEST = ReadRequest("other", b"m", (STEP,), b"1", deadline_seconds=60.0)


class Agent:
    """An agent whose transfers never end, and whose polls call `poll`."""

    def __init__(self, *_: object) -> None:
        self.broken = threading.Event()
        self.backends = {"UCX": object()}
        self.notices: list[bytes] = []

    def get_new_notifs(self) -> dict[str, list[bytes]]:
        if self.broken.is_set():
            raise RuntimeError("the backend has failed")
        taken, self.notices = self.notices, []
        return {"other": taken}

    def check_xfer_state(self, _handle: object) -> str:
        return "PROC"

    def __getattr__(self, _name: str) -> object:
        return lambda *_: b"other"


_READS = "UCX_CUDA_IPC_ENABLE_GET_ZCOPY"


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> NixlEndpoint:
    monkeypatch.delenv(_READS, raising=False)
    package, api = ModuleType("nixl"), ModuleType("nixl._api")
    api.__dict__.update(nixl_agent=Agent, nixl_agent_config=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "nixl", package)
    monkeypatch.setitem(sys.modules, "nixl._api", api)
    heard: list[bytes] = []

    def on_notice(notice: bytes) -> None:
        heard.append(notice)
        if notice == b"junk":
            raise ValueError("not a lease")

    subject = NixlEndpoint("me", (REGION,), on_notice, lambda: True)
    subject.start()
    subject.heard = heard  # type: ignore[attr-defined]
    return subject


def test_memory_of_one_gpu_is_read_directly_unless_the_user_says_otherwise(
    endpoint: NixlEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _READS not in os.environ  # UCX would report it on every machine without a GPU
    on_gpu = (Region(4096, 64, 0, "VRAM"),)
    NixlEndpoint("another", on_gpu).start()
    assert os.environ[_READS] == "on"
    monkeypatch.setenv(_READS, "auto")
    NixlEndpoint("other", on_gpu).start()
    assert os.environ[_READS] == "auto"


async def test_when_it_dies_readers_and_owner_hear_of_it_at_once(endpoint: NixlEndpoint) -> None:
    read = endpoint.begin(REQUEST)
    await endpoint.answers()  # so that the read has begun
    endpoint._agent.broken.set()
    with pytest.raises(ProcessFailed, match="the NIXL thread died: the backend has failed"):
        await endpoint.watch()
    for one in (read, endpoint.begin(REQUEST)):
        with pytest.raises(TransferFailed, match="the NIXL thread has ended"):
            await asyncio.wrap_future(one.outcome)
    assert not read.ended.done()  # NIXL may still write to its memory


async def test_what_another_process_sends_does_not_end_it(endpoint: NixlEndpoint) -> None:
    endpoint._agent.notices = [b"junk", b"7"]
    while endpoint._agent.notices:
        await endpoint.answers()
    await endpoint.answers()  # so that the received ones have been handled
    assert endpoint.heard == [b"junk", b"7"]  # type: ignore[attr-defined]
    endpoint.close()
    await endpoint.watch()  # a requested end is not a failure


async def test_the_owner_looks_more_often_while_it_is_read(
    endpoint: NixlEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a read's second step would wait a whole interval for its owner."""
    monkeypatch.setattr("auricle.embeddings.nixl._SERVING_SECONDS", 60.0)
    usual = endpoint._pause()
    assert usual is not None
    endpoint._on_notification(READING)
    faster = endpoint._pause()
    assert faster is not None and faster < usual
    endpoint._on_notification(b"7")  # the notice of the read
    assert endpoint._pause() == usual
    assert endpoint.heard[-1] == b"7"  # type: ignore[attr-defined]
    assert READING not in endpoint.heard  # type: ignore[attr-defined]
    endpoint.close()
