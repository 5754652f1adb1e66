"""Third-party servers that tests run."""

from __future__ import annotations

import contextlib
import json
import os
import signal as signals
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import nats

from auricle.frontend.exporters.nats import STREAM
from auricle_testing.server import ANSWER_SECONDS, free_port

BIN = Path(sys.executable).parent
_START_SECONDS = 60.0


class Nats:
    """A NATS server with JetStream, on one port, that can be killed, frozen and started again."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self.address = f"nats://127.0.0.1:{self.port}"
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        listen = ("-a", "127.0.0.1", "-p", str(self.port))
        self._process = subprocess.Popen(
            [str(BIN / "nats-server"), *listen, "-js", "-sd", str(self._directory)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def signal(self, number: signals.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def freeze(self) -> None:
        """Stop all of its threads; on a busy machine that takes a while."""
        assert self._process is not None
        self.signal(signals.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)

    def end(self, number: signals.Signals) -> None:
        if self._process is not None:
            self.signal(number)
            self._process.wait(ANSWER_SECONDS)
            self._process = None


async def stored_messages(address: str) -> list[Any]:
    """The messages of the transcript bus's stream on a NATS server."""
    connection = await nats.connect(address, connect_timeout=ANSWER_SECONDS)
    try:
        stream = connection.jetstream(timeout=ANSWER_SECONDS)
        state = (await stream.stream_info(STREAM)).state
        numbers = range(state.first_seq, state.last_seq + 1)
        return [json.loads((await stream.get_msg(STREAM, n)).data or b"") for n in numbers]
    finally:
        await connection.close()


@contextlib.contextmanager
def running(
    *command: str,
    health: str,
    environment: dict[str, str] | None = None,
    seconds: float = _START_SECONDS,
) -> Iterator[None]:
    """Run a server process until the block ends; it is ready when `health` answers.

    Fails if that takes longer than `seconds`.
    """
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    try:
        deadline = time.monotonic() + seconds
        while True:
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(health, timeout=1.0).status_code == 200:
                    break
            assert process.poll() is None, f"{command[0]} ended with {process.returncode}"
            assert time.monotonic() < deadline, f"{command[0]} did not come up"
            time.sleep(0.1)  # polling another process
        yield
    finally:
        process.terminate()
        process.wait(ANSWER_SECONDS)


@contextlib.contextmanager
def nats_server(directory: Path, port: int | None = None) -> Iterator[str]:
    """A NATS server with JetStream, whose streams live in `directory`; yields its address."""
    port, monitor = port or free_port(), free_port()
    arguments = [
        *("-a", "127.0.0.1", "-p", str(port), "-m", str(monitor)),
        *("-js", "-sd", str(directory / "jetstream")),
    ]
    with running(
        str(BIN / "nats-server"), *arguments, health=f"http://127.0.0.1:{monitor}/healthz"
    ):
        yield f"nats://127.0.0.1:{port}"


class Etcd:
    """A single-member etcd that can be killed, and started again with its data."""

    def __init__(self, directory: Path) -> None:
        self.url, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self._arguments = [
            *("--data-dir", str(directory / "etcd"), "--listen-client-urls", self.url),
            *("--advertise-client-urls", self.url, "--listen-peer-urls", peer),
            *("--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"),
        ]
        self._running = contextlib.ExitStack()

    def start(self) -> None:
        command = (str(BIN / "etcd"), *self._arguments)
        self._running.enter_context(running(*command, health=f"{self.url}/health"))

    def stop(self) -> None:
        self._running.close()

    def keys(self, prefix: str) -> list[str]:
        """The keys with this prefix."""
        command = [str(BIN / "etcdctl"), "--endpoints", self.url, "get", "--prefix", prefix]
        listed = subprocess.run(
            [*command, "--keys-only"],
            check=True,
            capture_output=True,
            text=True,
            timeout=ANSWER_SECONDS,
        )
        return listed.stdout.split()


@contextlib.contextmanager
def etcd_server(directory: Path) -> Iterator[Etcd]:
    """Run a single-member etcd while the block runs."""
    etcd = Etcd(directory)
    etcd.start()
    try:
        yield etcd
    finally:
        etcd.stop()
