"""`auricle doctor` on a deployment with a process that hangs."""

from __future__ import annotations

import json

import pytest

from auricle_testing.server import Server, eventually
from tests.doctor import doctor
from tests.faults.freezing import freeze

pytestmark = pytest.mark.end_to_end


async def test_a_frozen_worker_is_named(server: Server) -> None:
    frozen = server.component("EncodeWorker")
    await freeze(frozen)
    done = doctor(server.url, "--json")
    assert done.exit_code == 1, done.output
    found = json.loads(done.output)
    answers = found["diagnosis"]["processes"]
    workers = [answer for answer in answers if answer["component"] == "encode_worker"]
    assert workers and all(worker["description"] is None for worker in workers)
    assert not found["diagnosis"]["probes"]
    said = [finding["what"] for finding in found["findings"] if finding["wrong"]]
    # Its launcher may have ended it as unresponsive.
    assert any(
        what.startswith("Encode worker 1 (instance ")
        and ("did not answer within" in what or "cannot be reached" in what)
        for what in said
    ), said
    await eventually(lambda: not frozen.is_running(), seconds=60)
