"""The gRPC server of a frontend. gRPC is imported here alone, and only if it is served."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any

from auricle.config.settings import FrontendSettings
from auricle.core.errors import AuricleError
from auricle.frontend.transport.admission import SessionAdmission
from auricle.frontend.transport.app import Services
from auricle.frontend.transport.grpc.health import SERVICE as HEALTH
from auricle.frontend.transport.grpc.health import Health
from auricle.frontend.transport.grpc.incoming import Incoming, Method, incoming_of, status_of
from auricle.frontend.transport.grpc.reflection import SERVICE as REFLECTION
from auricle.frontend.transport.grpc.reflection import Reflection
from auricle.frontend.transport.live_sessions import mapped_errors
from auricle.frontend.transport.session_log import log_refused
from auricle.frontend.transport.slots import RateLimiter

log = logging.getLogger(__name__)
# Buffered for each call of a client that sends faster than its audio is processed.
_HELD_BYTES = 64 * 1024
_CALLS_PER_CONNECTION = 1_000
# A client that vanished is noticed by the answer to a ping that does not come.
_PING_MS = 60_000
# How often clients may ping; by default those that keep idle connections alive are sent away.
_CLIENTS_PING_MS = 10_000
_STOP_SECONDS = 2.0


class RpcServer:
    """Serves calls at `Frontend.grpc_port`, on one event loop; does nothing if that is not set."""

    def __init__(
        self,
        settings: FrontendSettings,
        services: Services,
        admission: SessionAdmission,
        rates: RateLimiter,
    ) -> None:
        """`rates` limits requests: each call is one."""
        self._settings = settings
        self._admission = admission
        self._rates = rates
        named = (*services.rpc_methods, HEALTH, REFLECTION)
        health = Health(services.processors, named).methods
        self._methods = {**services.rpc_methods, **health, **Reflection(named).methods}
        self._server: Any = None
        self.port: int | None = None

    async def open(self) -> None:
        """Accept calls. Raises SystemExit if the port is taken."""
        settings = self._settings
        if settings.grpc_port is None:
            return
        # Its core writes to standard error by itself, a line for each failed TLS handshake.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        import grpc.aio

        server = grpc.aio.server(
            options=_options(settings), maximum_concurrent_rpcs=settings.max_connections
        )
        for service, methods in self._methods.items():
            limited = service != HEALTH  # probes must be answered, whoever shares their address
            handlers = {n: self._handler(method, limited=limited) for n, method in methods.items()}
            server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler(service, handlers),)
            )
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        address = f"{host}:{settings.grpc_port}"
        try:
            if (credentials := _credentials(settings)) is None:
                self.port = server.add_insecure_port(address)
            else:
                self.port = server.add_secure_port(address, credentials)
        except RuntimeError:
            raise SystemExit(f"cannot listen on {address}, Frontend.grpc_port") from None
        await server.start()
        self._server = server
        log.info("gRPC at %s:%d", host, self.port)

    async def close(self) -> None:
        """End all calls, at the latest after two seconds."""
        if self._server is not None:
            await self._server.stop(_STOP_SECONDS)

    def _handler(self, method: Method, *, limited: bool) -> Any:
        import grpc.aio

        async def handle(_requests: object, context: Any) -> bytes | None:
            settings = self._settings
            incoming = incoming_of(
                context.peer(), context.invocation_metadata() or (), settings.trusted_proxies
            )
            try:
                with mapped_errors("a call"):
                    if limited:
                        self._within_rate(incoming)
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

    def _within_rate(self, incoming: Incoming) -> None:
        """Raise RateLimited if the client's host makes too many calls."""
        try:
            self._rates.spend(incoming.host)
        except AuricleError as error:
            log_refused(incoming.address, error)
            raise


def _options(settings: FrontendSettings) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", settings.grpc_max_message_bytes),
        ("grpc.max_allowed_incoming_connections", settings.max_connections),
        ("grpc.max_concurrent_streams", _CALLS_PER_CONNECTION),
        ("grpc.server_handshake_timeout_ms", int(1000 * settings.header_timeout_seconds)),
        ("grpc.so_reuseport", 0),  # a port that is taken is an error
        # Otherwise gRPC holds some 4 MB of each call as soon as the network is fast.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", _HELD_BYTES),
        ("grpc.keepalive_time_ms", _PING_MS),
        ("grpc.keepalive_timeout_ms", int(1000 * settings.slow_reader_seconds)),
        ("grpc.http2.min_ping_interval_without_data_ms", _CLIENTS_PING_MS),
    ]


def _credentials(settings: FrontendSettings) -> Any:
    """Return the server's credentials for TLS, None without."""
    import grpc

    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    pair = (settings.tls_key.read_bytes(), settings.tls_certificate.read_bytes())
    return grpc.ssl_server_credentials([pair])
