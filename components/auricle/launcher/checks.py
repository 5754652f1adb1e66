"""Checks made before a graph starts, of errors that would otherwise appear half a minute later."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from auricle.config.settings import CommonSettings, DynamoFrontendSettings, FrontendSettings
from auricle.core.errors import SettingsError
from auricle.dynamo.inotify import check_instances
from auricle.dynamo.network import internal_host

_RECORD_BYTES = 4096
_OTHERS, _OTHERS_WRITE = 0o077, 0o022
_LEFT = ("v1", "planner.lock")  # Dynamo's records, and the planner's lease
_LONGEST_PATH = 90  # Linux allows 107 for a Unix socket with its name


def check_ports(settings: Mapping[str, CommonSettings]) -> None:
    """Raise SettingsError if a component of this machine cannot listen on its fixed port."""
    for name, key, host, port in fixed_ports(settings):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # As the servers do: a previous server's connections may be in TIME_WAIT.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                raise SettingsError(
                    f"cannot listen on {host}:{port}: {error.strerror}; "
                    f"set another {name}.{key}, or stop the process that listens there"
                ) from None


def check_checkpoints(settings: Mapping[str, CommonSettings]) -> None:
    """Raise SettingsError if a component has no checkpoint: an aligner's has no default."""
    for own in settings.values():
        if own.replicas:
            _ = own.checkpoint


def check_inotify(settings: Mapping[str, CommonSettings]) -> None:
    """Raise SettingsError if the user's limit of inotify instances is too low for all processes."""
    processes = [own.replicas for own in settings.values() if own.discovery == "file"]
    check_instances(sum(processes))


def check_discovery(settings: CommonSettings, path: Path | None = None) -> None:
    """Raise SettingsError if file discovery cannot use its directory for itself.

    `path` overrides the directory that the settings name. It is created, for this user only, if
    it is missing; one that others can read is closed to them if it has only what processes of
    auricle leave there, and refused otherwise. Whoever can write there can pose as a worker and
    hear audio; whoever can read there learns the deployment's secret.
    """
    if settings.discovery != "file":
        return
    path = path or settings.discovery_path
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        _close(path)
        found = path.stat()
        with tempfile.NamedTemporaryFile(dir=path, prefix=".auricle-") as probe:
            probe.write(b"\0" * _RECORD_BYTES)
            probe.flush()
    except OSError as error:
        raise SettingsError(
            f"the discovery directory {path} cannot be written: {error.strerror}; "
            "free space or permit writing there, or set another Common.discovery_path"
        ) from None
    if found.st_uid != os.geteuid() or found.st_mode & _OTHERS:
        raise SettingsError(
            f"the discovery directory {path} is open to other users (mode "
            f"{found.st_mode & 0o7777:o}, owner {found.st_uid}): chmod 700 it, if it is auricle's "
            "alone, or set another Common.discovery_path"
        )
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise SettingsError(
            f"the discovery directory {path} has a name of more than {_LONGEST_PATH} bytes, too "
            "many for the Unix sockets in it: set a shorter Common.discovery_path"
        )


def _close(path: Path) -> None:
    """Close a discovery directory, which a user or an earlier version made, to other users."""
    found = path.stat()
    if found.st_uid != os.geteuid() or found.st_mode & _OTHERS_WRITE:
        return  # other users could already write to it
    if all(entry.name.startswith(".") or entry.name in _LEFT for entry in path.iterdir()):
        path.chmod(0o700)


def fixed_ports(settings: Mapping[str, CommonSettings]) -> Iterator[tuple[str, str, str, int]]:
    """Yield component, key, host and number of every fixed port.

    Port 0 is left out: it selects a free port, or none.
    """
    for name, own in settings.items():
        if own.replicas == 0:
            continue
        if isinstance(own, FrontendSettings):
            for way, number in own.keyless_ports.items():
                yield name, f"{way}_port", own.host, number
            if own.grpc_port:
                yield name, "grpc_port", own.host, own.grpc_port
        if isinstance(own, FrontendSettings | DynamoFrontendSettings) and own.port:
            yield name, "port", own.host, own.port
        # Frontends have no system port: their health and metrics are on `port`.
        elif own.system_port:
            for number in range(own.replicas):
                host = internal_host(own) or "0.0.0.0"
                yield name, "system_port", host, own.system_port + number
