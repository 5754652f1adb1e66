"""Configuration and overrides of a command's own server."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from auricle.client import own_server as module
from auricle.client.own_server import BUNDLED_MODEL, ORDINARY_SPEECH, own_server
from auricle.launcher import serve as launching

pytestmark = pytest.mark.unit
TRANSFORMERS = "--PdWorker.engine=transformers"


@dataclass(frozen=True)
class Started:
    """Records the arguments of a server that is ready at once and ends."""

    config: Path
    overrides: list[str]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Started]:
    """All servers."""
    found: list[Started] = []

    async def serve(
        _graph: str,
        config: Path,
        overrides: Sequence[str],
        *,
        on_ready: Callable[[str], None],
        **_: Any,
    ) -> None:
        found.append(Started(config, list(overrides)))
        on_ready("http://there")

    monkeypatch.setattr(launching, "serve", serve)
    return found


async def told(*overrides: str, config: Path | None = BUNDLED_MODEL, quiet: bool = False) -> str:
    """The console's output for a server with these overrides."""
    console = Console(file=io.StringIO(), width=200)
    async with own_server(console, quiet=quiet, config=config, overrides=overrides) as server:
        assert server.url == "http://there"
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("named", [(), ("--PdWorker.engine=vllm",)])
async def test_without_vllm_workers_run_the_other_engine_unless_one_is_named(
    started: list[Started], monkeypatch: pytest.MonkeyPatch, named: tuple[str, ...]
) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _name: None)
    assert "vllm is not installed: PD workers run transformers" in await told(*named)
    assert await told(*named, quiet=True) == ""
    for server in started:
        chosen = [one for one in server.overrides if one.startswith("--PdWorker.engine=")]
        assert chosen == [TRANSFORMERS, *named]  # the last one wins


async def test_with_vllm_nothing_is_chosen(
    started: list[Started], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _name: object())
    assert await told("--Frontend.max_sessions=3") == ""
    overrides = started[0].overrides
    assert TRANSFORMERS not in overrides and overrides[-1] == "--Frontend.max_sessions=3"


async def test_the_model_for_ordinary_speech_is_served_once_its_weights_are_here(
    started: list[Started], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "find", lambda name: Path("/models") / name)
    assert "is not here" not in await told(config=None)
    assert started[0].config == ORDINARY_SPEECH


async def test_without_these_weights_the_bundled_model_takes_its_place_and_the_console_says_so(
    started: list[Started], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "find", lambda _name: None)
    assert "whisper-base is not here (auricle models pull whisper-base)" in await told(config=None)
    assert await told(config=None, quiet=True) == ""
    assert [server.config for server in started] == [BUNDLED_MODEL] * 2
