"""The ways in that have a TCP port of their own, as far as the settings name one."""

from __future__ import annotations

import socket
from collections.abc import Callable

from auricle.checkpoint.files import read_config
from auricle.checkpoint.languages import FAMILY
from auricle.errors import AuricleError, CheckpointError, SettingsError
from auricle.frontend.audiosocket.session import audiosocket_protocol
from auricle.frontend.doors.access.gate import Access
from auricle.frontend.doors.connections import Connections
from auricle.frontend.doors.seats import Rates
from auricle.frontend.doors.tcp import TcpProtocol, TcpServer
from auricle.frontend.frontend import Frontend
from auricle.frontend.wyoming.session import wyoming_protocol
from auricle.process.status import report_status
from auricle.settings import FrontendSettings


class Ports:
    """Binds the ports when it is made; serves them from `open` to `close`."""

    def __init__(
        self,
        settings: FrontendSettings,
        access: Access,
        listen: Callable[[str, int], socket.socket],
    ) -> None:
        """Raises SettingsError if their clients could not be let in, what `listen` raises else."""
        self._access = access
        self._host = settings.host
        used = settings.keyless_ports
        _check_tenant(settings, access, used)
        if "audiosocket" in used and not (settings.nats_server or settings.log_transcripts):
            raise SettingsError(
                "Frontend.audiosocket_port is set, but the text of its calls would go nowhere; "
                "set nats_server"
            )
        self._listeners = {name: listen(settings.host, number) for name, number in used.items()}
        self._servers: list[TcpServer] = []

    async def open(self, frontend: Frontend, connections: Connections, rates: Rates) -> None:
        """Accept clients."""
        for name, listener in self._listeners.items():
            protocol = self._protocol(name, frontend)
            server = TcpServer(protocol, connections, rates, frontend.front_door)
            self._servers.append(server)
            await server.start(listener)
            report_status(f"{name} at {self._host}:{listener.getsockname()[1]}")

    async def close(self) -> None:
        """End all connections."""
        for server in self._servers:
            await server.close()

    def _protocol(self, name: str, frontend: Frontend) -> TcpProtocol:
        if name == "audiosocket":
            return audiosocket_protocol(frontend, self._access)
        return wyoming_protocol(frontend, self._access, _languages(frontend.settings))


def _check_tenant(settings: FrontendSettings, access: Access, used: dict[str, int]) -> None:
    tenant = settings.keyless_tenant
    if tenant is not None and not access.needs_keys:
        raise SettingsError(
            "Frontend.keyless_tenant is set, but there are no keys; set Frontend.api_keys_file"
        )
    if not used or not access.needs_keys:
        return
    if tenant is None:
        raise SettingsError(
            f"Frontend.{next(iter(used))}_port would let in everybody, as its protocol has no "
            "keys: name the key whose tenant its clients are in Frontend.keyless_tenant, or unset "
            "the port"
        )
    try:
        access.keyless(tenant, "live")
    except AuricleError as error:
        raise SettingsError(
            f"Frontend.keyless_tenant {tenant!r} lets nobody in: {error.for_client}"
        ) from None


def _languages(settings: FrontendSettings) -> tuple[str, ...]:
    """Return the languages of the served model, or those of its family if it is not here."""
    try:
        return read_config(settings.model).languages or FAMILY
    except CheckpointError:
        return FAMILY
