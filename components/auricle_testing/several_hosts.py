"""A graph on several hosts, as docs/several_hosts.md deploys it: one process per host."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal as signals
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from auricle_testing.hosts import Host, Network, network
from auricle_testing.server import (
    ANSWER_SECONDS,
    LIGHT_ENGINE,
    READY_SECONDS,
    ROOT,
    STOP_SECONDS,
    UNHURRIED,
    leaving_nothing,
)
from auricle_testing.services import BIN

EXAMPLE = ROOT / "examples/several_hosts"
CLIENT = "client"
# The hosts of each role.
ROLES = {
    "client": (CLIENT,),
    "etcd": ("etcd1", "etcd2", "etcd3"),
    "nats": ("nats",),
    "frontend": ("frontend1", "frontend2"),
    "processor": ("processor1", "processor2"),
    "encode": ("encode1", "encode2"),
    "pd": ("pd1", "pd2"),
}
COMPONENTS = {
    "frontend": "Frontend",
    "processor": "Processor",
    "encode": "EncodeWorker",
    "pd": "PdWorker",
}
CLIENT_PORT, SYSTEM_PORT, ETCD_PORT, ETCD_PEER_PORT, NATS_PORT = 8080, 9090, 2379, 2380, 4222
# Shifts the wall clock of a host's processes, if it is installed (Debian: faketime).
_FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
# The shortest lease, so that tests need not wait for long until a lost host's records expire.
LEASE_SECONDS = 10
_POLL_SECONDS = 0.1


def role_of(host: str) -> str:
    """Return the role of a host."""
    return next(role for role, hosts in ROLES.items() if host in hosts)


@dataclass
class Program:
    """A program on one host, which can be started again after it has ended."""

    host: Host
    arguments: Sequence[str]
    environment: dict[str, str]
    log: list[str] = field(default_factory=list)
    _process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            self.host.command(*self.arguments),
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        threading.Thread(target=self._read, args=(self._process,), daemon=True).start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.log.append(line.rstrip())

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def signal(self, number: signals.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def end(self, number: signals.Signals) -> int:
        """Send a signal, if the program runs, and return its exit code."""
        if self.runs:
            self.signal(number)
        return self.wait()

    def wait(self) -> int:
        """Return the exit code. Raises TimeoutExpired if the program does not end."""
        assert self._process is not None
        return self._process.wait(STOP_SECONDS)


@dataclass
class Deployment:
    """The running graph: its network, and the programs by host."""

    network: Network
    programs: dict[str, Program]
    clocks: dict[str, Path] = field(default_factory=dict)

    def set_clock(self, host: str, ahead_seconds: int) -> None:
        """Set the wall clock of a host's processes ahead, within a second.

        Raises LookupError if the host's clock cannot be set.
        """
        self.clocks[host].write_text(f"+{ahead_seconds}s\n")

    @property
    def urls(self) -> list[str]:
        """The addresses of the frontends."""
        return [f"http://{self.address(host)}:{CLIENT_PORT}" for host in ROLES["frontend"]]

    def address(self, host: str) -> str:
        return self.network.hosts[host].address

    def health(self, host: str) -> bool:
        """Whether the component of a host is healthy."""
        port = CLIENT_PORT if role_of(host) == "frontend" else SYSTEM_PORT
        with contextlib.suppress(httpx.HTTPError):
            url = f"http://{self.address(host)}:{port}/health"
            return httpx.get(url, timeout=1.0).status_code == 200
        return False

    def metric(self, host: str, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples with these labels."""
        port = CLIENT_PORT if role_of(host) == "frontend" else SYSTEM_PORT
        text = httpx.get(f"http://{self.address(host)}:{port}/metrics", timeout=ANSWER_SECONDS).text
        samples = re.findall(rf"^{name}({{.*}})? (\S+)$", text, re.MULTILINE)
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        return sum(float(value) for found, value in samples if all(w in found for w in wanted))

    def registered(self) -> list[str]:
        """Return the keys of all endpoints in discovery."""
        return self._etcdctl(
            ROLES["etcd"][0], "get", "--prefix", "v1/instances", "--keys-only"
        ).split()

    def etcd_leader(self) -> str:
        """Return the host of etcd's leader. Raises LookupError if there is none."""
        for member in ROLES["etcd"]:
            (status,) = json.loads(self._etcdctl(member, "endpoint", "status", "-w", "json"))
            if status["Status"]["header"]["member_id"] == status["Status"]["leader"]:
                return member
        raise LookupError("etcd has no leader")

    def _etcdctl(self, member: str, *arguments: str) -> str:
        """Ask an etcd member on its own host."""
        host = self.network.hosts[member]
        asking = [str(BIN / "etcdctl"), "--endpoints", f"http://{host.address}:{ETCD_PORT}"]
        done = subprocess.run(
            host.command(*asking, *arguments),
            check=True,
            capture_output=True,
            text=True,
            timeout=ANSWER_SECONDS,
        )
        return done.stdout

    def whole(self) -> bool:
        """Whether all components are healthy, and each frontend has both processors."""
        hosts = [host for role in COMPONENTS for host in ROLES[role]]
        with contextlib.suppress(httpx.HTTPError):  # a process is restarting
            return all(self.health(host) for host in hosts) and all(
                httpx.get(f"{url}/health", timeout=ANSWER_SECONDS).json()["processors"] == 2
                for url in self.urls
            )
        return False


def until(condition: Callable[[], bool], seconds: float, why: Callable[[], str]) -> None:
    """Wait until other processes fulfil `condition`. Raises AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, why()
        time.sleep(_POLL_SECONDS)


@contextlib.contextmanager
def deployed(
    folder: Path,
    *overrides: str,
    settable_clocks: Sequence[str] = (),
    prepare: Callable[[Network], None] = lambda _network: None,
) -> Iterator[Deployment]:
    """Run the graph until the block ends; the calling thread is on the client's host meanwhile.

    `folder` gets the files of etcd and NATS. The clocks of the hosts `settable_clocks` can be set
    if libfaketime is installed. `prepare` is called before any program starts. Fails if a process
    is left behind.
    """
    secret = folder / "secret"
    secret.write_text("s" * 64)
    secret.chmod(0o600)
    names = [host for hosts in ROLES.values() for host in hosts]
    with contextlib.ExitStack() as stack:
        made = stack.enter_context(network(names))
        prepare(made)
        environment = stack.enter_context(leaving_nothing())
        deployment = Deployment(made, {})
        settings = [*_settings(made, secret), *overrides]
        for host in made.hosts.values():
            if (arguments := _arguments(host, made, folder, settings)) is not None:
                variables = environment | _variables()
                if host.name in settable_clocks and _FAKETIME.exists():
                    deployment.clocks[host.name] = folder / f"{host.name}.clock"
                    deployment.set_clock(host.name, 0)
                    variables |= _clock_variables(deployment.clocks[host.name])
                program = Program(host, arguments, variables)
                deployment.programs[host.name] = program
                stack.callback(_ended, program)
        stack.enter_context(made.hosts[CLIENT].entered())
        for program in deployment.programs.values():
            program.start()
        until(deployment.whole, READY_SECONDS, lambda: _logs(deployment))
        yield deployment
        made.heal()
        # Callers before callees: processes in use end their sessions first.
        for role in COMPONENTS:
            programs = [deployment.programs[name] for name in ROLES[role]]
            for program in programs:
                program.signal(signals.SIGTERM)
            for program in programs:
                assert program.wait() == 0, f"{role}:\n" + "\n".join(program.log[-60:])
        until(lambda: not deployment.registered(), STOP_SECONDS, lambda: "stale records")


def _ended(program: Program) -> None:
    if program.runs:
        program.end(signals.SIGKILL)


def _logs(deployment: Deployment) -> str:
    return "\n".join(
        f"{host}: {line}" for host, one in deployment.programs.items() for line in one.log[-20:]
    )


def _variables() -> dict[str, str]:
    lines = (EXAMPLE / "environment").read_text().splitlines()
    pairs = (word.partition("=") for line in lines for word in shlex.split(line, comments=True))
    return {name: value for name, _, value in pairs} | {"PYTHONUNBUFFERED": "1"}


def _clock_variables(offset: Path) -> dict[str, str]:
    return {
        "LD_PRELOAD": str(_FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_CACHE_DURATION": "1",  # seconds until the file is read again
        "DONT_FAKE_MONOTONIC": "1",
    }


def _settings(made: Network, secret: Path) -> list[str]:
    def endpoints(role: str, scheme: str, port: int) -> str:
        return ",".join(f"{scheme}://{made.hosts[host].address}:{port}" for host in ROLES[role])

    return [
        f"--Common.secret_file={secret}",
        f"--Common.etcd_endpoints={endpoints('etcd', 'http', ETCD_PORT)}",
        f"--Common.nats_server={endpoints('nats', 'nats', NATS_PORT)}",
        f"--Common.etcd_lease_seconds={LEASE_SECONDS}",
        "--Common.load_report_seconds=0.5",
        *UNHURRIED,
        *LIGHT_ENGINE,
    ]


def _arguments(
    host: Host, made: Network, folder: Path, settings: Sequence[str]
) -> list[str] | None:
    """Return the command of a host's program; None for the client's host."""
    role = role_of(host.name)
    if role == "etcd":
        return _etcd(host, made, folder)
    if role == "nats":
        listen = ("-a", host.address, "-p", str(NATS_PORT))
        return [str(BIN / "nats-server"), *listen, "-js", "-sd", str(folder / "nats")]
    if role not in COMPONENTS:
        return None
    return [
        *(sys.executable, "-m", "auricle", "serve", "graphs.e_pd:Frontend"),
        *("-f", os.fspath(EXAMPLE / "auricle.yaml")),
        f"--{COMPONENTS[role]}.replicas=1",
        f"--Common.internal_host={host.address}",
        *settings,
    ]


def _etcd(host: Host, made: Network, folder: Path) -> list[str]:
    peers = {name: f"http://{made.hosts[name].address}:{ETCD_PEER_PORT}" for name in ROLES["etcd"]}
    own, client = peers[host.name], f"http://{host.address}:{ETCD_PORT}"
    return [
        *(str(BIN / "etcd"), "--name", host.name, "--data-dir", str(folder / host.name)),
        *("--listen-client-urls", client, "--advertise-client-urls", client),
        *("--listen-peer-urls", own, "--initial-advertise-peer-urls", own),
        *("--initial-cluster", ",".join(f"{name}={url}" for name, url in peers.items())),
        # An election in a busy network takes seconds anyway, and must not be provoked by it.
        *("--heartbeat-interval", "300", "--election-timeout", "3000"),
    ]
