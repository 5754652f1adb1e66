"""`auricle doctor` on a healthy deployment, and its access control."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from auricle.cli import main
from auricle.frontend.transport.access.keys import key_file, new_key
from auricle_testing.server import Server, eventually, frontend_beside
from tests.doctor import doctor

pytestmark = pytest.mark.end_to_end
ENCODED = ("EncodeWorker", "auricle_encode_worker_windows_encoded_total")
DECODED = ("PdWorker", "auricle_pd_worker_decodes_total")


def test_nothing_is_wrong_with_a_graph_that_is_well(server: Server) -> None:
    done = doctor(server.url)
    assert done.exit_code == 0, done.output
    assert "1 frontend, 1 processor, 1 encode worker, 1 PD worker" in done.output
    assert "probe by processor 1, encode worker 1 and PD worker 1: " in done.output
    assert done.output.endswith("Nothing is wrong.\n")


def test_its_status_has_what_every_pool_has_in_work(server: Server) -> None:
    done = CliRunner().invoke(main, ["status", "--url", server.url, "--json"])
    assert done.exit_code == 0, done.output
    told: dict[str, Any] = json.loads(done.stdout)
    assert (told["well"], told["wrong"]) == (True, [])
    processes = {pool["component"]: pool["processes"] for pool in told["pools"]}
    units = {component: its[0]["load"]["unit"] for component, its in processes.items()}
    assert units == {
        **dict.fromkeys(("frontend", "processor"), "sessions"),
        "encode_worker": "requests",
        "pd_worker": "decodes",
    }
    assert all(one["load"]["limit"] > 0 for its in processes.values() for one in its)
    assert {one["state"] for its in processes.values() for one in its} == {"well"}


def document(server: Server) -> dict[str, Any]:
    done = doctor(server.url, "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.output)
    assert not [finding for finding in found["findings"] if finding["wrong"]]
    return dict(found["diagnosis"])


def test_the_document_has_what_every_process_knows_of_itself(server: Server) -> None:
    diagnosis = document(server)
    said = {answer["component"]: answer["description"] for answer in diagnosis["processes"]}
    pids = {process.pid for process in server.processes()}
    assert {description["pid"] for description in said.values()} <= pids
    models = [said[c]["parts"]["model"] for c in ("processor", "encode_worker", "pd_worker")]
    assert models[0]["dtype"] == "float32" and models == [models[0]] * 3
    for worker in ("encode_worker", "pd_worker"):
        parts = said[worker]["parts"]
        assert parts["transfers"]["backends"] == ["UCX"]
        assert "TCP" in parts["transfers"]["possible"]
        assert parts["slab"]["slots"] >= parts["slab"]["used"] >= parts["slab"]["leased"]
    room = said["pd_worker"]["parts"]["kv"]
    assert room["max_model_len"] == 2048
    assert room["tokens"] > said["processor"]["parts"]["segment"]["tokens"] > 0
    assert {"auricle", "dynamo", "vllm", "nixl", "torch"} <= said["pd_worker"]["versions"].keys()
    assert diagnosis["discovery"] == {"backend": "file", "state": "up", "unlisted": []}


def test_every_probe_encodes_reads_and_decodes_anew(server: Server) -> None:
    for _ in range(2):
        before = [server.metric(*ENCODED), server.metric(*DECODED)]
        (probe,) = document(server)["probes"]
        steps = probe["steps"]
        assert not steps["failed"] and steps["bytes_read"] > 0
        assert 0 < steps["read_seconds"] < steps["decode_seconds"]
        assert steps["mel_seconds"] > 0 and steps["encode_seconds"] > 0
        assert [server.metric(*ENCODED), server.metric(*DECODED)] == [n + 1 for n in before]


async def test_the_pd_worker_times_its_reads(server: Server) -> None:
    assert doctor(server.url).exit_code == 0  # its probe is read, if no session was
    rate = ("PdWorker", "auricle_pd_worker_timed_read_bytes_per_second")
    await eventually(lambda: server.metric(*rate, memory="host") > 0, seconds=60)
    logged = re.compile(r"reads \d+\.\d\d GB/s from encode-\d+-\w+, from memory of the host to")
    await eventually(lambda: logged.search("\n".join(server.log)) is not None, seconds=60)
    said = {answer["component"]: answer["description"] for answer in document(server)["processes"]}
    (read,) = said["pd_worker"]["parts"]["timed_reads"]
    assert read["agent"] == said["encode_worker"]["parts"]["transfers"]["agent"]
    assert read["size"] / read["seconds"] == server.metric(*rate, memory="host")
    assert "    reads from encode worker 1 (" in doctor(server.url).output


def test_nothing_is_followed_before_the_first_question(server: Server) -> None:
    with frontend_beside(server) as other:
        before = watches(other)
        assert doctor(other.url).exit_code == 0
        first = watches(other)
        assert doctor(other.url).exit_code == 0
        assert watches(other) == first > before


def watches(server: Server) -> int:
    """The inotify instances of a process."""
    links = Path(f"/proc/{server.process.pid}/fd").iterdir()
    return sum("inotify" in _target(link) for link in links)


def _target(link: Path) -> str:
    """The target of a descriptor; empty if it was closed meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        return str(link.readlink())
    return ""


def test_one_diagnosis_is_made_at_a_time(server: Server) -> None:
    """The command waits for its turn; other clients receive a retry time."""
    # After each answer, the server refuses for 2 s. The next request falls into that time unless
    # this process or the server has hung, which may happen for some of the requests.
    answers = (asked(server) for _ in range(10))
    refused = next((answer for answer in answers if answer.status_code != 200), None)
    assert refused is not None and refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    assert doctor(server.url).exit_code == 0


def asked(server: Server, key: str = "") -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx.get(f"{server.url}/v1/diagnosis", headers=headers, timeout=90.0)


def test_only_a_key_for_operations_may_ask(server: Server, tmp_path: Path) -> None:
    client, its = new_key("client")
    operator, theirs = new_key("operator", scopes=["operations"])
    keys, file = tmp_path / "keys.yaml", tmp_path / "key"
    keys.write_text(key_file(its) + key_file(theirs, first=False))
    with frontend_beside(server, f"--Frontend.api_keys_file={keys}") as guarded:
        assert asked(guarded).status_code == 401
        assert asked(guarded, client).status_code == 403
        file.write_text(client)
        refused = doctor(guarded.url, "--api-key-file", str(file))
        assert refused.exit_code == 2
        assert "not for operations" in refused.output
        file.write_text(operator)
        assert doctor(guarded.url, "--api-key-file", str(file)).exit_code == 0
