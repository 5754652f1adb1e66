"""How the processes of a graph find and reach each other: addresses, sockets, transports."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from auricle.config.settings import CommonSettings

# Requests go point to point; NATS, where configured, carries events only.
REQUEST_PLANE = "tcp"
_LOOPBACK = "127.0.0.1"
# Bytes of a Unix socket's path without the last name, which takes 17 and a process id.
_LONGEST_DIRECTORY = 80
# etcd ends connections with more frequent pings (--grpc-keepalive-min-time).
_ETCD_PING_SECONDS = 5
# Below the discovery directory.
CALL_SOCKETS = ".calls"


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
    """Return the sockets of events within one machine; None if events use another transport.

    By itself Dynamo's ZeroMQ event plane listens on all of the machine's addresses.
    """
    own = settings.discovery == "file" and settings.event_plane == "zmq"
    if not own or internal_host(settings) != _LOOPBACK:
        return None
    at = settings.discovery_path
    return EventSockets(at / ".events-in", at / ".events-out", at / ".events-lock")


def call_sockets(settings: CommonSettings) -> Path | None:
    """Return the directory of the sockets at which this machine's processes call each other.

    None if calls take the request plane.
    """
    own = settings.discovery == "file" and internal_host(settings) == _LOOPBACK
    at = settings.discovery_path / CALL_SOCKETS
    too_long = len(os.fsencode(at)) > _LONGEST_DIRECTORY
    return at if own and settings.local_calls and not too_long else None


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


def dynamo_environment(settings: CommonSettings) -> dict[str, str]:
    """Return the environment variables from which Dynamo reads its transports."""
    sockets = event_sockets(settings)
    values = {
        "DYN_DISCOVERY_BACKEND": settings.discovery,
        "DYN_REQUEST_PLANE": REQUEST_PLANE,
        "DYN_EVENT_PLANE": settings.event_plane,
        "DYN_FILE_KV": str(settings.discovery_path),
        "ETCD_ENDPOINTS": settings.etcd_endpoints,
        "ETCD_LEASE_TTL": str(settings.etcd_lease_seconds),
        **_etcd_pings(settings.etcd_lease_seconds),
        # Set only where Dynamo itself uses NATS: it does not start if that server is down.
        "NATS_SERVER": settings.nats_server if settings.event_plane == "nats" else "",
        "DYN_ZMQ_BROKER_URL": sockets.broker if sockets is not None else "",
        "DYN_SYSTEM_PORT": str(settings.system_port or ""),
    }
    return {name: value for name, value in values.items() if value}


def _etcd_pings(lease_seconds: int) -> dict[str, str]:
    """Return when Dynamo pings the etcd member that it uses, and how long it waits for the answer.

    A member whose host is lost must be found, and replaced by another one, while the lease still
    lasts. These are Dynamo's defaults for the default lease.
    """
    return {
        "ETCD_KEEPALIVE_INTERVAL_SECONDS": str(max(_ETCD_PING_SECONDS, lease_seconds // 10)),
        "ETCD_KEEPALIVE_TIMEOUT_SECONDS": str(max(1, lease_seconds // 15)),
    }


def set_environment(settings: CommonSettings) -> None:
    """Set the environment variables that Dynamo and the libraries below it read, once each."""
    os.environ.update(dynamo_environment(settings))
    for variable, value in internal_environment(settings).items():
        os.environ.setdefault(variable, value)
