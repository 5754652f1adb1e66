"""A graph on several hosts, as docs/several_hosts.md deploys it: one process per host."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal as signals
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from pathlib import Path

import httpx

from auricle_testing.hosts import Host, Network, network
from auricle_testing.scraping import total
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
from examples.several_hosts import wireguard
from examples.several_hosts.hosts import Hosts, read

EXAMPLE = ROOT / "examples/several_hosts"
CLIENT = "client"
MONITORING = CLIENT
# The hosts of each role.
ROLES = {
    "client": (CLIENT, "client2"),
    "balancer": ("balancer",),
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
_TUNNELS = IPv4Network("10.99.0.0/16")
_TUNNEL_PROGRAMS = ("wg", "wg-quick", "wireguard-go")
# Each host has its own folder for sockets of wireguard-go; its processes end with the first one.
_PRIVATELY = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
_UP = "the tunnel is up"
_TUNNEL_UP = f'mount -t tmpfs tmpfs /run && wg-quick up "$0" && echo {_UP} && exec sleep infinity'
_POLL_SECONDS = 0.1


def role_of(host: str) -> str:
    """Return the role of a host."""
    return next(role for role, hosts in ROLES.items() if host in hosts)


def missing_tunnels() -> str:
    """Return the reason why this machine cannot run WireGuard; empty if it can."""
    missing = [program for program in _TUNNEL_PROGRAMS if shutil.which(program) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


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
    """The running graph: its network, the hosts' addresses by role, and the programs by host."""

    network: Network
    hosts: Hosts
    programs: dict[str, Program] = field(default_factory=dict)
    clocks: dict[str, Path] = field(default_factory=dict)

    def set_clock(self, host: str, ahead_seconds: int) -> None:
        """Set the wall clock of a host's processes ahead, within a second.

        Raises LookupError if the host's clock cannot be set.
        """
        self.clocks[host].write_text(f"+{ahead_seconds}s\n")

    @property
    def urls(self) -> list[str]:
        """The addresses of the frontends for clients."""
        return [self.client_url(host) for host in ROLES["frontend"]]

    def client_url(self, host: str) -> str:
        """Return the address of a frontend or the balancer for clients, which have no tunnel."""
        return f"http://{self.network.hosts[host].address}:{CLIENT_PORT}"

    def address(self, host: str) -> str:
        """Return the address of a host for the other hosts."""
        return self.hosts.internal(self.network.hosts[host].address)

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
        return total(f"http://{self.address(host)}:{port}", name, **labels)

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
        endpoint = f"http://{self.address(member)}:{ETCD_PORT}"
        done = subprocess.run(
            self.network.hosts[member].command(
                str(BIN / "etcdctl"), "--endpoints", endpoint, *arguments
            ),
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
    tunnels: bool = False,
    prepare: Callable[[Network, Hosts], None] = lambda _network, _hosts: None,
) -> Iterator[Deployment]:
    """Run the graph until the block ends; the calling thread is on the client's host meanwhile.

    `folder` gets the files of etcd and NATS. The clocks of the hosts `settable_clocks` can be set
    if libfaketime is installed. With `tunnels` WireGuard connects all hosts but `client2`.
    `prepare` is called before any program starts. There is a balancer if HAProxy is installed.
    Fails if a process is left behind.
    """
    secret = folder / "secret"
    secret.write_text("s" * 64)
    secret.chmod(0o600)
    names = [host for hosts in ROLES.values() for host in hosts]
    with contextlib.ExitStack() as stack:
        made = stack.enter_context(network(names))
        deployment = Deployment(made, _hosts(made, tunnels=tunnels))
        prepare(made, deployment.hosts)
        environment = stack.enter_context(leaving_nothing())
        if tunnels:
            _connect(deployment, folder / "wireguard", environment, stack)
        settings = [*_settings(deployment, secret), *overrides]
        for host in made.hosts.values():
            if (arguments := _arguments(host, deployment, folder, settings)) is not None:
                variables = environment | _variables(deployment)
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
        until(deployment.whole, READY_SECONDS, lambda: _logs(deployment.programs))
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


def _hosts(made: Network, *, tunnels: bool) -> Hosts:
    by_role = {role: [made.hosts[name].address for name in names] for role, names in ROLES.items()}
    by_role["monitoring"] = [made.hosts[MONITORING].address]
    return Hosts(by_role, _TUNNELS if tunnels else None)


def _connect(
    deployment: Deployment, folder: Path, environment: dict[str, str], stack: contextlib.ExitStack
) -> None:
    """Run WireGuard on all hosts until the stack is closed."""
    files = wireguard.write(deployment.hosts, folder)
    programs = {
        host.name: Program(
            host, (*_PRIVATELY, "sh", "-c", _TUNNEL_UP, str(files[host.address])), environment
        )
        for host in deployment.network.hosts.values()
        if host.address in files
    }
    for program in programs.values():
        stack.callback(_ended, program)
        program.start()
    until(
        lambda: all(_UP in program.log for program in programs.values()),
        ANSWER_SECONDS,
        lambda: _logs(programs),
    )


def _logs(programs: Mapping[str, Program]) -> str:
    return "\n".join(f"{host}: {line}" for host, one in programs.items() for line in one.log[-20:])


def _variables(deployment: Deployment) -> dict[str, str]:
    lines = (EXAMPLE / "environment").read_text().splitlines()
    pairs = (word.partition("=") for line in lines for word in shlex.split(line, comments=True))
    variables = {name: value for name, _, value in pairs} | {"PYTHONUNBUFFERED": "1"}
    if deployment.hosts.tunnels is not None:
        variables["UCX_NET_DEVICES"] = wireguard.DEVICE
    return variables


def _clock_variables(offset: Path) -> dict[str, str]:
    return {
        "LD_PRELOAD": str(_FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_CACHE_DURATION": "1",  # seconds until the file is read again
        "DONT_FAKE_MONOTONIC": "1",
    }


def _settings(deployment: Deployment, secret: Path) -> list[str]:
    def endpoints(role: str, scheme: str, port: int) -> str:
        return ",".join(f"{scheme}://{deployment.address(host)}:{port}" for host in ROLES[role])

    (balancer,) = ROLES["balancer"]
    return [
        f"--Common.secret_file={secret}",
        f"--Common.etcd_endpoints={endpoints('etcd', 'http', ETCD_PORT)}",
        f"--Common.nats_server={endpoints('nats', 'nats', NATS_PORT)}",
        f"--Common.etcd_lease_seconds={LEASE_SECONDS}",
        "--Common.load_report_seconds=0.5",
        f"--Frontend.trusted_proxies=[{deployment.address(balancer)}]",
        *UNHURRIED,
        *LIGHT_ENGINE,
    ]


def _arguments(
    host: Host, deployment: Deployment, folder: Path, settings: Sequence[str]
) -> list[str] | None:
    """Return the command of a host's program; None if it has none."""
    role, address = role_of(host.name), deployment.address(host.name)
    if role == "etcd":
        return _etcd(host.name, deployment, folder)
    if role == "nats":
        listen = ("-a", address, "-p", str(NATS_PORT))
        return [str(BIN / "nats-server"), *listen, "-js", "-sd", str(folder / "nats")]
    if role == "balancer" and (haproxy := shutil.which("haproxy")) is not None:
        return [haproxy, "-db", "-f", str(_balancer(deployment, folder))]
    if role not in COMPONENTS:
        return None
    return [
        *(sys.executable, "-m", "auricle", "serve", "graphs.e_pd:Frontend"),
        *("-f", os.fspath(EXAMPLE / "auricle.yaml")),
        f"--{COMPONENTS[role]}.replicas=1",
        f"--Common.internal_host={address}",
        *settings,
    ]


def _balancer(deployment: Deployment, folder: Path) -> Path:
    """Write the example's file with the addresses of these frontends, and return it."""
    text = (EXAMPLE / "haproxy.cfg").read_text()
    own = read(EXAMPLE / "hosts.yaml").by_role["frontend"]
    for example, host in zip(own, ROLES["frontend"], strict=True):
        text = text.replace(f" {example}:", f" {deployment.address(host)}:")
    file = folder / "haproxy.cfg"
    file.write_text(text)
    return file


def _etcd(name: str, deployment: Deployment, folder: Path) -> list[str]:
    peers = {
        member: f"http://{deployment.address(member)}:{ETCD_PEER_PORT}" for member in ROLES["etcd"]
    }
    own, client = peers[name], f"http://{deployment.address(name)}:{ETCD_PORT}"
    return [
        *(str(BIN / "etcd"), "--name", name, "--data-dir", str(folder / name)),
        *("--listen-client-urls", client, "--advertise-client-urls", client),
        *("--listen-peer-urls", own, "--initial-advertise-peer-urls", own),
        *("--initial-cluster", ",".join(f"{member}={url}" for member, url in peers.items())),
        # An election in a busy network takes seconds anyway, and must not be provoked by it.
        *("--heartbeat-interval", "300", "--election-timeout", "3000"),
    ]
