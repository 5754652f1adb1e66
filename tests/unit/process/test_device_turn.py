"""Processes that share a GPU load on it one after the other."""

from __future__ import annotations

import asyncio
import multiprocessing
from pathlib import Path

import pytest

from auricle.core.errors import ProcessFailed
from auricle.process.device_turn import device_turn

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def on_the_first_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")


async def test_nobody_else_loads_on_a_device_meanwhile(tmp_path: Path) -> None:
    loading, most = 0, 0

    async def load() -> None:
        nonlocal loading, most
        async with device_turn("cuda", tmp_path, 60):
            loading += 1
            most = max(most, loading)
            await asyncio.sleep(0)
            loading -= 1

    await asyncio.gather(load(), load(), load())
    assert most == 1


async def test_who_has_no_gpu_does_not_wait(tmp_path: Path) -> None:
    async with device_turn(None, tmp_path, 0), device_turn(None, tmp_path, 0):
        pass


async def test_devices_are_loaded_on_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with device_turn("cuda", tmp_path, 0):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
        async with device_turn("cuda", tmp_path, 0):
            pass


async def test_a_wait_for_a_device_ends(tmp_path: Path) -> None:
    async with device_turn("cuda", tmp_path, 60):
        with pytest.raises(
            ProcessFailed, match="other processes have been loading on its device for 0 s"
        ):
            async with device_turn("cuda", tmp_path, 0):
                pass


async def test_a_turn_ends_although_a_child_has_inherited_it(tmp_path: Path) -> None:
    """vLLM forks its engine, which lives as long as the worker."""
    fork = multiprocessing.get_context("fork")
    end = fork.Event()
    child = fork.Process(target=end.wait, daemon=True)
    try:
        async with device_turn("cuda", tmp_path, 60):
            child.start()
        async with device_turn("cuda", tmp_path, 0):
            assert child.is_alive()
    finally:
        end.set()
        child.join()
