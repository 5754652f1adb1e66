"""What a command's own server is started with."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from auricle.client import own_server as module
from auricle.client.own_server import own_server

pytestmark = pytest.mark.unit
TRANSFORMERS = "--PdWorker.engine=transformers"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The overrides of each server, which is ready at once and ends."""
    found: list[list[str]] = []

    async def serve(
        _graph: str,
        _config: Path,
        overrides: Sequence[str],
        *,
        on_ready: Callable[[str], None],
        **_: Any,
    ) -> None:
        found.append(list(overrides))
        on_ready("http://there")

    monkeypatch.setattr(module, "serve", serve)
    return found


async def told(*overrides: str, quiet: bool = False) -> str:
    """What the console says of a server with these overrides."""
    console = Console(file=io.StringIO(), width=200)
    async with own_server(console, quiet=quiet, overrides=overrides) as server:
        assert server.url == "http://there"
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("named", [(), ("--PdWorker.engine=vllm",)])
async def test_without_vllm_workers_run_the_other_engine_unless_one_is_named(
    started: list[list[str]], monkeypatch: pytest.MonkeyPatch, named: tuple[str, ...]
) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _name: None)
    assert "vLLM is not installed" in await told(*named)
    assert await told(*named, quiet=True) == ""
    for overrides in started:
        chosen = [one for one in overrides if one.startswith("--PdWorker.engine=")]
        assert chosen == [TRANSFORMERS, *named]  # the last one is taken


async def test_with_vllm_nothing_is_chosen(
    started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _name: object())
    assert await told("--Frontend.max_sessions=3") == ""
    assert TRANSFORMERS not in started[0] and started[0][-1] == "--Frontend.max_sessions=3"
