"""The addresses on which the processes of a graph listen for each other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from auricle.settings import CommonSettings

_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class EventSockets:
    """The Unix sockets of the event relay: publishers send to one and subscribers hear the other.

    The process that holds the lock runs the relay.
    """

    publishers: Path
    subscribers: Path
    lock: Path

    @property
    def broker(self) -> str:
        """The relay's address, as Dynamo reads it."""
        return f"xsub=ipc://{self.publishers} , xpub=ipc://{self.subscribers}"


def internal_host(settings: CommonSettings) -> str:
    """Return the address; empty if Dynamo chooses one that other machines can reach.

    With file discovery all processes are on one machine, so the default is loopback.
    """
    if settings.internal_host is not None:
        return str(settings.internal_host)
    return _LOOPBACK if settings.discovery == "file" else ""


def event_sockets(settings: CommonSettings) -> EventSockets | None:
    """Return the sockets through which events go on one machine; None if they go elsewhere.

    By itself Dynamo's ZeroMQ event plane listens on all of the machine's addresses.
    """
    own = settings.discovery == "file" and settings.event_plane == "zmq"
    if not own or internal_host(settings) != _LOOPBACK:
        return None
    at = settings.discovery_path
    return EventSockets(at / ".events-in", at / ".events-out", at / ".events-lock")


def internal_environment(settings: CommonSettings) -> dict[str, str]:
    """Return the environment variables that give Dynamo, UCX and vLLM this address."""
    host = internal_host(settings)
    if not host:
        return {}
    values = {
        "DYN_TCP_RPC_HOST": host,
        "DYN_TCP_RESPONSE_STREAM_HOST": host,
        "DYN_EVENT_PLANE_HOST": host,  # advertised; it listens on all addresses
        "DYN_SYSTEM_HOST": host,
        "VLLM_HOST_IP": host,
    }
    if host == _LOOPBACK:
        # UCX selects network devices, not addresses.
        values["UCX_NET_DEVICES"] = "lo"
    return values
