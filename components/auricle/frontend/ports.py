"""The ways in that have a TCP port of their own, as far as the settings name one."""

from __future__ import annotations

import socket
from collections.abc import Callable

from auricle.checkpoint.languages import FAMILY, language_name
from auricle.frontend.audiosocket.session import audiosocket_protocol
from auricle.frontend.doors.access.gate import Access
from auricle.frontend.doors.access.granted import check_keyless
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
        check_keyless(settings, access)
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
        # Those of Qwen3-ASR, if the model is not on this machine.
        languages = tuple(map(language_name, frontend.spoken.languages)) or FAMILY
        return wyoming_protocol(frontend, self._access, languages)
