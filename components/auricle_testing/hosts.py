"""Several hosts made of network namespaces, and the disturbances of the network between them.

Every host is a namespace with one address. A router, one more namespace, connects them: it drops
packets for a cut, and passes them through a relay for delay and loss. Everything ends with the
block of `network`.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import heapq
import os
import random
import select
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_CLONE_NEWNET = 0x40000000  # setns(2)
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000  # linux/if_tun.h
_TUN = "/dev/net/tun"
_COMMAND_SECONDS = 30.0
_PACKET_BYTES = 65_536
_RELAY_TABLE = "100"
# Rules are tried in this order: cuts first, then the relay.
_CUT, _FROM_RELAY, _TO_RELAY = "100", "150", "200"


def missing() -> str:
    """Return the reason why this machine cannot have several hosts; empty if it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        return "network namespaces need iproute2 and util-linux"
    probe = f"probe{os.getpid()}"
    try:
        _run("ip", "netns", "add", probe)
        try:
            _run("ip", "-n", probe, "tuntap", "add", "mode", "tun", "dev", "relay")
            _run("ip", "-n", probe, "rule", "add", "from", "192.0.2.1", "blackhole")
        finally:
            _run("ip", "netns", "del", probe)
    except subprocess.CalledProcessError as error:
        return f"network namespaces are not permitted: {error.stderr.strip()}"
    return ""


@dataclass(frozen=True)
class Host:
    """One host: its name, network namespace and address."""

    name: str
    namespace: str
    address: str

    def command(self, *arguments: str) -> list[str]:
        """Return the command that runs a program on this host, with the host's name."""
        named = ("sh", "-c", 'hostname "$0" && exec "$@"', self.name)
        run = ("ip", "netns", "exec", self.namespace, "unshare", "--uts", "--ipc")
        return [*run, *named, *arguments]

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Make the sockets that this thread opens, and its new threads' and children's, the host's.

        Sockets that are already open stay where they are.
        """
        with Path("/proc/thread-self/ns/net").open() as before:
            with Path(f"/run/netns/{self.namespace}").open() as own:
                _set_namespace(own.fileno())
            try:
                yield
            finally:
                _set_namespace(before.fileno())


@dataclass
class Network:
    """The hosts by name, and the state of the network between them.

    All methods block for some milliseconds.
    """

    hosts: dict[str, Host]
    router: str  # its namespace
    _relay: _Relay
    _rules: list[tuple[str, ...]] = field(default_factory=list)
    _unplugged: set[str] = field(default_factory=set)

    def cut(self, sender: str, receiver: str) -> None:
        """Drop all packets from one host to another, without a notice to either."""
        self._rule(_CUT, *self._between(sender, receiver), "blackhole")

    def unplug(self, host: str) -> None:
        """Set a host's link down: the host itself notices it, the others do not."""
        self._unplugged.add(host)
        _run("ip", "-n", self.hosts[host].namespace, "link", "set", "eth0", "down")

    def disturb(self, host: str, *, delay_seconds: float = 0.0, loss: float = 0.0) -> None:
        """Delay all packets from and to a host, and drop a share (0 to 1) of them."""
        self._relay.delay_seconds, self._relay.loss = delay_seconds, loss
        self._rule(_FROM_RELAY, "iif", _Relay.DEVICE, "lookup", "main")
        address = self.hosts[host].address
        for direction in ("from", "to"):
            self._rule(_TO_RELAY, direction, address, "lookup", _RELAY_TABLE)

    def heal(self) -> None:
        """End all disturbances."""
        for rule in self._rules:
            _run("ip", "-n", self.router, "rule", "del", *rule)
        self._rules.clear()
        for host in sorted(self._unplugged):
            namespace = self.hosts[host].namespace
            _run("ip", "-n", namespace, "link", "set", "eth0", "up")
            _route(namespace, _gateway(self.hosts[host].address))
        self._unplugged.clear()

    def _between(self, sender: str, receiver: str) -> tuple[str, ...]:
        return "from", self.hosts[sender].address, "to", self.hosts[receiver].address

    def _rule(self, priority: str, *rule: str) -> None:
        whole = ("priority", priority, *rule)
        _run("ip", "-n", self.router, "rule", "add", *whole)
        self._rules.append(whole)


@contextlib.contextmanager
def network(names: Sequence[str]) -> Iterator[Network]:
    """Make hosts with these names until the block ends; all processes in them must have ended."""
    prefix = f"auricle{os.getpid()}-"
    router = f"{prefix}router"
    hosts = {
        name: Host(name, f"{prefix}{name}", f"10.77.{number}.2")
        for number, name in enumerate(names, start=1)
    }
    with contextlib.ExitStack() as stack:
        stack.enter_context(_namespace(router))
        # Answers may take another way than questions while a direction passes the relay.
        for setting in ("ip_forward=1", "conf.all.rp_filter=0", "conf.default.rp_filter=0"):
            _run("ip", "netns", "exec", router, "sysctl", "-qw", f"net.ipv4.{setting}")
        for number, host in enumerate(hosts.values(), start=1):
            stack.enter_context(_namespace(host.namespace))
            _connect(router, f"host{number}", host)
        relay = stack.enter_context(_Relay.running(router))
        made = Network(hosts, router, relay)
        yield made
        made.heal()


def _connect(router: str, device: str, host: Host) -> None:
    gateway = _gateway(host.address)
    _run(
        *("ip", "-n", router, "link", "add", device, "type", "veth"),
        *("peer", "name", "eth0", "netns", host.namespace),
    )
    _run("ip", "-n", router, "address", "add", f"{gateway}/30", "dev", device)
    _run("ip", "-n", router, "link", "set", device, "up")
    _run("ip", "-n", host.namespace, "address", "add", f"{host.address}/30", "dev", "eth0")
    _run("ip", "-n", host.namespace, "link", "set", "eth0", "up")
    _route(host.namespace, gateway)


def _gateway(address: str) -> str:
    return f"{address.rpartition('.')[0]}.1"


def _route(namespace: str, gateway: str) -> None:
    """Route everything to the router; a link that was down has lost its routes."""
    _run("ip", "-n", namespace, "route", "replace", "default", "via", gateway)


@contextlib.contextmanager
def _namespace(name: str) -> Iterator[None]:
    _run("ip", "netns", "add", name)
    try:
        _run("ip", "-n", name, "link", "set", "lo", "up")
        yield
    finally:
        _run("ip", "netns", "del", name)


class _Relay:
    """Holds packets back for `delay_seconds`, and drops a share of them (`loss`), on a thread."""

    DEVICE = "relay"

    def __init__(self, descriptor: int) -> None:
        self.delay_seconds = 0.0
        self.loss = 0.0
        self._descriptor = descriptor
        self._stopped = threading.Event()
        self._wake, self._woken = socket.socketpair()

    @classmethod
    @contextlib.contextmanager
    def running(cls, router: str) -> Iterator[_Relay]:
        """Run a relay in the router's namespace until the block ends."""
        with contextlib.ExitStack() as stack:
            with Host("router", router, "").entered():
                descriptor = os.open(_TUN, os.O_RDWR)
            stack.callback(os.close, descriptor)
            request = struct.pack("16sH22x", cls.DEVICE.encode(), _IFF_TUN | _IFF_NO_PI)
            fcntl.ioctl(descriptor, _TUNSETIFF, request)
            _run("ip", "-n", router, "link", "set", cls.DEVICE, "up")
            _run(
                *("ip", "-n", router, "route", "add", "default", "dev", cls.DEVICE),
                *("table", _RELAY_TABLE),
            )
            relay = cls(descriptor)
            thread = threading.Thread(target=relay._run, name="relay")
            thread.start()
            try:
                yield relay
            finally:
                relay._stopped.set()
                relay._wake.send(b"-")
                thread.join(_COMMAND_SECONDS)
                relay._wake.close()
                relay._woken.close()

    def _run(self) -> None:
        dice, held, number = random.Random(1), list[tuple[float, int, bytes]](), 0
        while not self._stopped.is_set():
            wait = max(0.0, held[0][0] - time.monotonic()) if held else None
            woken = self._woken.fileno()
            readable, _, _ = select.select([self._descriptor, woken], [], [], wait)
            if self._descriptor in readable:
                packet = os.read(self._descriptor, _PACKET_BYTES)
                if dice.random() >= self.loss:
                    number += 1
                    heapq.heappush(held, (time.monotonic() + self.delay_seconds, number, packet))
            while held and held[0][0] <= time.monotonic():
                with contextlib.suppress(OSError):  # not an IP packet for any host
                    os.write(self._descriptor, heapq.heappop(held)[2])


def _set_namespace(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _run(*command: str) -> str:
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=_COMMAND_SECONDS
    )
    return done.stdout
