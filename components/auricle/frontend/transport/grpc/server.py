"""The gRPC server of a frontend. gRPC is imported here alone, and only if it is served."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from typing import Any

from auricle.config.settings import FrontendSettings
from auricle.core.errors import AuricleError
from auricle.frontend.transport.admission import SessionAdmission
from auricle.frontend.transport.app import Services
from auricle.frontend.transport.connections import Connections
from auricle.frontend.transport.grpc.gate import LIBRARY_WAITING_CALLS, Gate
from auricle.frontend.transport.grpc.health import SERVICE as HEALTH
from auricle.frontend.transport.grpc.health import Health
from auricle.frontend.transport.grpc.incoming import Incoming, Method, incoming_of, status_of
from auricle.frontend.transport.grpc.reflection import SERVICE as REFLECTION
from auricle.frontend.transport.grpc.reflection import Reflection
from auricle.frontend.transport.live_sessions import mapped_errors
from auricle.frontend.transport.session_log import log_refused
from auricle.frontend.transport.slots import NetworkLimit, NetworkRates

log = logging.getLogger(__name__)
# Buffered for each call of a client that sends faster than its audio is processed.
_HELD_BYTES = 64 * 1024
_CALLS_PER_CONNECTION = 1_000
# A client that vanished is noticed by the answer to a ping that does not come.
_PING_MS = 60_000
# How often clients may ping; by default those that keep idle connections alive are sent away.
_CLIENTS_PING_MS = 10_000
_STOP_SECONDS = 2.0
# Calls of methods that need no key, of a network and in all: probes, and streams such as watches.
_OPEN_CALLS, _ALL_OPEN_CALLS = 64, 1_024
# Other calls that have neither a session nor a recording yet.
_NEW_CALLS, _ALL_NEW_CALLS = 512, 4_096
# A client's channel connects again by itself.
_IDLE_MS = 300_000
# A compressed message would become larger than its counted bytes.
_IDENTITY_ONLY = 1


class RpcServer:
    """Serves calls at `Frontend.grpc_port`, on one event loop; does nothing if that is not set."""

    def __init__(
        self,
        settings: FrontendSettings,
        services: Services,
        admission: SessionAdmission,
        connections: Connections,
        rates: NetworkRates,
    ) -> None:
        """Its connections count among `connections`. `rates` limits requests: each call is one."""
        self._settings = settings
        self._admission = admission
        self._rates = rates
        named = (*services.rpc_methods, HEALTH, REFLECTION)
        health = Health(services.readiness, named).methods
        self._methods = {**services.rpc_methods, **health, **Reflection(named).methods}
        self._connections = connections
        self._probes = NetworkLimit(_OPEN_CALLS, "probes", _ALL_OPEN_CALLS)
        self._watches = NetworkLimit(_OPEN_CALLS, "streams without a key", _ALL_OPEN_CALLS)
        self._new_calls = NetworkLimit(_NEW_CALLS, "calls without a session", _ALL_NEW_CALLS)
        self._gate: Gate | None = None
        self._server: Any = None
        self.port: int | None = None

    async def open(self) -> None:
        """Accept calls. Raises SystemExit if the port is taken."""
        settings = self._settings
        if settings.grpc_port is None:
            return
        # Its core writes to standard error by itself, a line for each failed TLS handshake.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        logging.getLogger("hpack").setLevel(logging.WARNING)  # it writes headers, keys included
        import grpc.aio

        gate = self._gate = Gate(settings, self._connections)
        server = grpc.aio.server(
            options=_options(settings), maximum_concurrent_rpcs=settings.max_connections
        )
        for service, methods in self._methods.items():
            limited = service != HEALTH  # probes must be answered, whoever shares their address
            handlers = {n: self._handler(one, gate, limited=limited) for n, one in methods.items()}
            server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler(service, handlers),)
            )
        server.add_insecure_port(f"unix:{gate.socket}")
        await server.start()
        self._server = server
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        try:
            self.port = await gate.open()
        except OSError as error:
            await self.close()
            address = f"{host}:{settings.grpc_port}"
            raise SystemExit(
                f"cannot listen on {address}, Frontend.grpc_port: {error.strerror}"
            ) from None
        log.info("gRPC at %s:%d", host, self.port)

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The context of TLS, once the port is open; None without a certificate."""
        return None if self._gate is None else self._gate.tls

    async def close(self) -> None:
        """End all calls, at the latest after two seconds."""
        if self._gate is not None:
            self._gate.stop()
            await self._server.stop(_STOP_SECONDS)
            await self._gate.close()

    def _handler(self, method: Method, gate: Gate, *, limited: bool) -> Any:
        import grpc.aio

        waiting = self._new_calls
        if method.open:
            waiting = self._watches if method.streams else self._probes

        async def handle(_requests: object, context: Any) -> bytes | None:
            metadata = context.invocation_metadata() or ()
            if (call := gate.call_of(metadata)) is None:
                raise asyncio.CancelledError  # its client has left
            incoming = incoming_of(call, metadata, self._settings.trusted_proxies)
            try:
                with mapped_errors("a call"):
                    self._within_limits(incoming, waiting, limited=limited)
                    return await method.serve(incoming, context)
            except AuricleError as error:
                failure = error
            status = status_of(failure, draining=self._admission.draining)
            code = getattr(grpc.StatusCode, status.code.name)
            try:
                await context.abort(code, status.message, status.metadata)
            except grpc.aio.InternalError:
                # The client left while the status was sent. gRPC logs any exception but
                # `AbortError` and CancelledError as an error of the server.
                raise asyncio.CancelledError from None
            return None  # `abort` always raises

        # Messages are taken one by one in either case, so that a unary call's message is not read
        # before its client is known.
        if method.streams:
            return grpc.stream_stream_rpc_method_handler(handle)
        return grpc.stream_unary_rpc_method_handler(handle)

    def _within_limits(self, incoming: Incoming, waiting: NetworkLimit, *, limited: bool) -> None:
        """Raise RateLimited or Overloaded if there are too many calls of the client's network."""
        try:
            if limited:
                self._rates.spend(incoming.networks)
            incoming.call.wait(waiting, incoming.networks)
        except AuricleError as error:
            log_refused(incoming.address, error)
            raise


def _options(settings: FrontendSettings) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", settings.grpc_max_message_bytes),
        ("grpc.max_concurrent_streams", _CALLS_PER_CONNECTION),
        ("grpc.compression_enabled_algorithms_bitset", _IDENTITY_ONLY),
        ("grpc.server.max_pending_requests", LIBRARY_WAITING_CALLS),
        ("grpc.server.max_pending_requests_hard_limit", 2 * LIBRARY_WAITING_CALLS),
        ("grpc.max_connection_idle_ms", _IDLE_MS),
        # Otherwise gRPC holds some 4 MB of each call as soon as the network is fast.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", _HELD_BYTES),
        ("grpc.keepalive_time_ms", _PING_MS),
        ("grpc.keepalive_timeout_ms", int(1000 * settings.slow_reader_seconds)),
        ("grpc.http2.min_ping_interval_without_data_ms", _CLIENTS_PING_MS),
    ]
