"""The page at `/ops` in headless Chromium, on a graph with keys and a planner, during speech."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from auricle_testing.chromium.visits import CALLER, emptied, operations, said_unasked, watched
from auricle_testing.server import ANSWER_SECONDS, LIGHT_ENGINE, ROOT, Server, serving
from tests.browser import needs_node

pytestmark = [pytest.mark.end_to_end, pytest.mark.deployment, needs_node]
SCREENSHOTS = ("key", "light", "dark", "phone")


@pytest.fixture(scope="module")
def shown() -> Path:
    """The folder in which the screenshots remain for inspection."""
    return emptied(ROOT / "build/ops")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(*watched(tmp_path_factory.mktemp("ops")), *LIGHT_ENGINE) as running:
        yield running


@pytest.fixture(scope="module")
def found(server: Server, shown: Path) -> dict[str, Any]:
    """Chromium's results, see components/auricle_testing/chromium/ops.mjs."""
    return operations(server, shown)


def test_it_opens_with_a_key_for_operations_only(found: dict[str, Any], server: Server) -> None:
    assert found["asked"] == (
        "This page is for operators: no API key; send it as 'Authorization: Bearer KEY'."
    )
    headers = {"Authorization": f"Bearer {CALLER[0]}"}
    refused = httpx.get(f"{server.url}/v1/operations", headers=headers, timeout=ANSWER_SECONDS)
    assert refused.status_code == 403


def test_all_processes_are_there(found: dict[str, Any]) -> None:
    for table, name in (
        ("processors", "processor"),
        ("encode_worker", "encode worker"),
        ("pd_worker", "PD worker"),
    ):
        first = found[table][0]
        assert first[:2] == [f"{name} 1", "ready"] and "pid" in first[2]
    assert "tokens" in found["pd_worker"][0][3]
    assert found["health"].startswith("Nothing is wrong")
    assert "probe" in found["examined"]


def test_the_planner_says_what_it_decided_and_why(found: dict[str, Any]) -> None:
    assert "planner 1 decides, every 1 s" in found["planner"]
    assert any("Encode workers 1 → 2, for the demand" in one for one in found["decisions"])
    assert all("demand" in one for one in found["decisions"])


def test_a_session_is_there_with_the_steps_of_its_chunks(found: dict[str, Any]) -> None:
    (session,) = found["sessions"]
    assert session[0].startswith("sess_") and session[1] == "acme"
    assert session[9] == "processor 1" and found["pressed"] == "true"
    steps = ["Frontend", "Waits", "Log-mel", "Encode", "Read", "Decode", "Other"]
    assert found["steps_heads"][3:10] == steps
    # For chunks since the selection of the session, this frontend also has the time of the text.
    assert any(row[3] != "–" for row in found["steps"])
    assert len(found["steps"]) >= 5
    longest = [sum(bars) for bars in found["bars"]]
    assert max(longest) == pytest.approx(1000, abs=1) and min(longest) > 0
    worked = [row for row in found["steps"] if "given up" not in row[2]]
    assert worked and all("tokens" not in row[0] and row[-1] == "PD worker 1" for row in worked)


def test_what_is_live_may_be_held_still(found: dict[str, Any]) -> None:
    assert found["paused"] == "paused"


def test_nothing_is_cut(found: dict[str, Any]) -> None:
    assert found["cut"] == {"1440": 0, "1280": 0, "768": 0, "360": 0}


def test_the_last_hour_is_there_when_the_page_is_loaded_again(found: dict[str, Any]) -> None:
    titles = [curve["title"] for curve in found["history"]]
    assert titles == ["Sessions", "Speaking", "Waiting to be let in", "Chunk p95"]
    assert 1 < found["history"][0]["points"] <= found["kept"]


def test_nobody_is_shut_out(found: dict[str, Any]) -> None:
    assert found["violations"] == []
    assert found["overflow"] == []
    assert found["focused"] == "sessions"


def test_it_is_quiet_small_and_by_itself(found: dict[str, Any], server: Server) -> None:
    assert said_unasked(found) == []
    assert [url for url in found["requests"] if not url.startswith(server.url)] == []
    assert 0 < max(found["weights"]) < 150_000


def test_it_looks_as_its_document_shows(found: dict[str, Any], shown: Path) -> None:
    assert found
    for name in SCREENSHOTS:
        assert (shown / f"ops-{name}.png").stat().st_size > 5_000
