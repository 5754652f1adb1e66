"""Ports that vLLM's libraries leave open reject new connections, if the kernel permits it."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.unit
_NOBODY = 65534
_PROCESS = """
import logging, os, socket, sys
from auricle.process.engine_process import lock_down_ports

logging.basicConfig(stream=sys.stdout, format="%(message)s")
os.setuid(int(sys.argv[1]))
listener = socket.create_server(("127.0.0.1", 0))
refused = lock_down_ports()
port = listener.getsockname()[1]
caller = socket.socket()
caller.settimeout(0.5)
try:
    caller.connect(("127.0.0.1", port))
    print(refused, "open", port)
except TimeoutError:
    print(refused, "closed", port)
"""


def _outcome(user: int) -> list[str]:
    command = [sys.executable, "-c", _PROCESS, str(user)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return done.stdout.splitlines()


@pytest.mark.skipif(os.getuid() != 0, reason="whether others may attach filters, kernels decide")
def test_root_closes_its_ports_to_newcomers() -> None:
    (found,) = _outcome(0)
    assert found.startswith("1 closed ")


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become another user")
def test_others_close_theirs_or_say_which_stay_open() -> None:
    *said, found = _outcome(_NOBODY)
    refused, state, port = found.split()
    assert (refused, state) in (("1", "closed"), ("0", "open"))
    assert bool(said) == (state == "open")
    assert not said or f"127.0.0.1:{port}" in said[0]
