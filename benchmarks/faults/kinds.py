"""The kinds of faults: action, target, and the figure of its recovery."""

from __future__ import annotations

from dataclasses import dataclass

ENCODE, PD, PROCESSOR, FRONTEND = "EncodeWorker", "PdWorker", "Processor", "Frontend"
COMPONENTS = (ENCODE, PD, PROCESSOR, FRONTEND)
# Targets other than components. Each target has only one fault at a time.
CLIENT, NATS, DISK, NOTHING = "the client's connection", "NATS", "the disk", "nothing"

# Transports of calls between processes. Calls use the request plane between machines, and on one
# machine if the socket is missing.
REQUEST_PLANE, SOCKETS = "the request plane", "local sockets"

_FAILS = "it answers, but fails every job; the suite ends it after the session"
_NAMES = (
    ("encode-worker", ENCODE), ("pd-worker", PD), ("processor", PROCESSOR), ("frontend", FRONTEND)
)  # fmt: skip
# The targets in `--quick` of faults that any component can have.
_SHORT_IN_QUICK = {"descriptors": PROCESSOR, "memory": ENCODE}
# Seconds of a fault that ends by itself.
_SHORT = (3.0, 6.0)


@dataclass(frozen=True)
class Kind:
    """One kind of fault.

    `action` (`inject.py`) is applied to the replica of `target` that is in use.
    `seconds`: its duration (least, most); None: until the graph, or the suite, ends it.
    `fatal`: the process must have ended afterwards, and another one must have replaced it.
    `recovery` is the figure of its recovery; empty for none.
    `plane` is the transport of the calls that it disturbs; empty if it disturbs no calls.
    `quick` is the number of such faults in `--quick`.
    """

    name: str
    target: str
    action: str
    what: str
    seconds: tuple[float, float] | None = None
    fatal: bool = False
    recovery: str = ""
    quick: int = 0
    plane: str = ""

    @property
    def shared(self) -> bool:
        """Whether other sessions use the target as well."""
        return self.target not in (CLIENT, NOTHING)

    @property
    def of_engine(self) -> bool:
        """Whether it needs an engine with a process of its own."""
        return self.action in ("kill_engine", "freeze_engine")


def _of_processes() -> list[Kind]:
    return [
        Kind("kill-encode-worker", ENCODE, "kill", "SIGKILL", fatal=True,
             recovery="worker", quick=1),
        Kind("kill-pd-worker", PD, "kill", "SIGKILL", fatal=True, recovery="worker", quick=1),
        Kind("kill-processor", PROCESSOR, "kill", "SIGKILL", fatal=True,
             recovery="processor", quick=2),
        Kind("kill-engine", PD, "kill_engine", "SIGKILL of its engine's process", fatal=True,
             recovery="worker", quick=1),
        Kind("freeze-encode-worker", ENCODE, "freeze", "SIGSTOP, then SIGCONT", _SHORT,
             recovery="frozen", quick=1),
        Kind("freeze-pd-worker", PD, "freeze", "SIGSTOP, then SIGCONT", _SHORT,
             recovery="frozen", quick=2),
        Kind("freeze-engine", PD, "freeze_engine",
             "SIGSTOP of its engine's process, then SIGCONT", _SHORT,
             recovery="frozen", quick=1),
        Kind("freeze-processor", PROCESSOR, "freeze", "SIGSTOP, then SIGCONT", _SHORT,
             recovery="frozen", quick=2),
        Kind("freeze-frontend", FRONTEND, "freeze", "SIGSTOP, then SIGCONT", _SHORT, quick=1),
        Kind("stop-encode-worker", ENCODE, "stop", "SIGSTOP for ever", fatal=True,
             recovery="frozen", quick=1),
        Kind("stop-pd-worker", PD, "stop", "SIGSTOP for ever", fatal=True, recovery="frozen"),
        Kind("stop-processor", PROCESSOR, "stop", "SIGSTOP for ever", fatal=True,
             recovery="frozen", quick=1),
        Kind("block-encode-worker", ENCODE, "block", "its event loop is blocked for ever",
             fatal=True, recovery="frozen"),
        Kind("block-pd-worker", PD, "block", "its event loop is blocked for ever", fatal=True,
             recovery="frozen"),
        Kind("block-processor", PROCESSOR, "block", "its event loop is blocked for ever",
             fatal=True, recovery="frozen"),
        Kind("nixl-encode-worker", ENCODE, "break_nixl", "its NIXL thread dies", fatal=True,
             recovery="worker"),
        Kind("nixl-pd-worker", PD, "break_nixl", "its NIXL thread dies", fatal=True,
             recovery="worker"),
        Kind("fail-encode-worker", ENCODE, "fail_jobs", _FAILS, fatal=True, recovery="worker"),
        Kind("fail-pd-worker", PD, "fail_jobs", _FAILS, fatal=True, recovery="worker"),
        Kind("drain-encode-worker", ENCODE, "drain", "the launcher drains one and starts another"),
        Kind("drain-pd-worker", PD, "drain", "the launcher drains one and starts another"),
        Kind("drain-processor", PROCESSOR, "drain", "the launcher drains one and starts another",
             quick=1),
        Kind("drain-frontend", FRONTEND, "terminate",
             "SIGTERM: clients continue at the next one after `going_away`", fatal=True),
        Kind("kill-frontend", FRONTEND, "kill", "SIGKILL", fatal=True, quick=1),
    ]  # fmt: skip


def _of_their_machine() -> list[Kind]:
    short_of = {"descriptors": "it can open no file and no connection",
                "memory": "it can allocate no more memory"}  # fmt: skip
    kinds = []
    for name, target in _NAMES:
        kinds += [
            Kind(f"{what}-{name}", target, f"exhaust_{what}", means, _SHORT,
                 quick=int(target == _SHORT_IN_QUICK[what]))
            for what, means in short_of.items()
        ]  # fmt: skip
        kinds.append(Kind(f"clock-{name}", target, "set_clock_back",
                          "its wall clock is set back by an hour"))  # fmt: skip
    return kinds


def _of_memory_and_records() -> list[Kind]:
    return [
        Kind("scribble-encoded", ENCODE, "scribble", "its slab of embeddings is overwritten",
             quick=2),
        Kind("scribble-landed", PD, "scribble", "the shared memory of its slab is overwritten",
             quick=1),
        Kind("stale-encode-worker", ENCODE, "stale_record",
             "discovery lists one at an address without a listener", (8.0, 12.0), quick=1),
        Kind("stale-pd-worker", PD, "stale_record",
             "discovery lists one at an address without a listener", (8.0, 12.0), quick=1),
        Kind("stale-processor", PROCESSOR, "stale_record",
             "discovery lists one at an address without a listener", (8.0, 12.0)),
        Kind("restart-nats", NATS, "restart_nats", "SIGKILL, and a start after some seconds",
             _SHORT, quick=1),
        Kind("fill-disk", DISK, "fill_disk",
             "no room for temporary files, discovery records and NATS's store; afterwards NATS, "
             "which has switched JetStream off, is restarted", _SHORT, quick=1),
    ]  # fmt: skip


def _of_the_network() -> list[Kind]:
    of_client = [
        Kind("client-delay", CLIENT, "delay", "every byte is late by 0.3 s", _SHORT, quick=1),
        Kind("client-slow", CLIENT, "slow", "half of the audio's bandwidth is available", _SHORT,
             quick=1),
        Kind("client-stall", CLIENT, "stall", "nothing passes, then all of it", _SHORT, quick=1),
        Kind("client-reorder", CLIENT, "reorder",
             "its connection is made after one that came later", quick=1),
        Kind("client-cut", CLIENT, "cut", "the connection is reset", quick=1),
        Kind("client-half-open", CLIENT, "half_open",
             "nothing passes, then the connection is reset", _SHORT,
             quick=1),
    ]  # fmt: skip
    targets = (("encode", ENCODE), ("pd", PD), ("processor", PROCESSOR))
    between = [kind for name, target in targets for kind in _between(name, target, REQUEST_PLANE)]
    local = [kind for name, target in targets for kind in _between(name, target, SOCKETS)]
    return of_client + between + local


def _between(name: str, target: str, plane: str) -> list[Kind]:
    """Return the kinds that disturb the connections on which others call `target`."""
    own = plane == SOCKETS
    prefix = f"local-{name}" if own else name
    calls = "local calls to it" if own else "requests to it"
    connections = "local connections to it" if own else "connections to it"
    return [
        Kind(f"{prefix}-delay", target, "delay", f"{calls} are late by 0.3 s", _SHORT,
             plane=plane),
        Kind(f"{prefix}-slow", target, "slow", f"{calls} pass at 16 kB/s", _SHORT, plane=plane),
        Kind(f"{prefix}-cut", target, "cut", f"{connections} are reset", quick=1, plane=plane),
        Kind(f"{prefix}-half-open", target, "half_open",
             f"{calls} vanish, then the connections are reset", _SHORT,
             quick=int(own and target == PROCESSOR), plane=plane),
        Kind(f"{prefix}-reorder", target, "reorder",
             f"{connections} are reset, and made again in another order", plane=plane),
    ]  # fmt: skip


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        *_of_processes(),
        *_of_their_machine(),
        *_of_memory_and_records(),
        *_of_the_network(),
    )
}
# An undisturbed session, the control for transcripts that differ. It is not a fault.
CONTROL = Kind("none", NOTHING, "none", "nothing: a session together with the others", quick=2)
# Of the actions, those that need the connections of a component to pass through a proxy.
OF_CONNECTIONS = frozenset({"delay", "slow", "stall", "cut", "half_open", "reorder"})
