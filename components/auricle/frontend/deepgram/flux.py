"""`WS /v2/listen`: Deepgram's protocol of turns, Flux."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import msgspec

from auricle.errors import AuricleError, UnsupportedValue
from auricle.frontend.deepgram.flux_messages import (
    Configure,
    FluxReplies,
    ForceEndTurn,
    fatal,
    parse_message,
)
from auricle.frontend.deepgram.flux_options import FluxOptions, Thresholds, parse_flux_options
from auricle.frontend.deepgram.live import SUBPROTOCOLS
from auricle.frontend.deepgram.messages import CloseStream, NoAudio, denial
from auricle.frontend.dialects.messages import Reply, encode
from auricle.frontend.dialects.session import Asked, Session, Summary
from auricle.frontend.dialects.turns import Turns
from auricle.frontend.doors.options import read
from auricle.frontend.doors.sockets import ClientSocket, SocketProtocol
from auricle.frontend.frontend import Frontend


def flux_protocol(frontend: Frontend) -> SocketProtocol:
    """Return the protocol of `/v2/listen`, for the frontend's event loop."""
    flux = FluxProtocol(frontend)
    return SocketProtocol(
        *("flux", flux.serve, flux.error, SUBPROTOCOLS), check=flux.check, denial=denial
    )


class FluxProtocol:
    """Serves the sessions of `/v2/listen`, on the frontend's event loop."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        # The number of the message that tells an error, which is a message of its session too.
        self._numbers: WeakKeyDictionary[AuricleError, int] = WeakKeyDictionary()

    def check(self, query: str) -> None:
        """Raise BadRequest, before the handshake, if the query's options cannot be served."""
        self._frontend.check_model(self._options(query).model)

    async def serve(self, socket: ClientSocket) -> None:
        """Serve one session until done. Raises AuricleError if it fails, ClientGone if the client
        leaves."""
        options = self._options(socket.query_string)
        replies = FluxReplies(socket.session)
        idle = self._frontend.settings.listen_idle_seconds
        dialect = _Flux(options, replies, idle)
        try:
            await Session(self._frontend, socket, options, dialect).run()
        except AuricleError as error:
            self._numbers[error] = replies.number()
            raise

    def error(self, error: AuricleError) -> str:
        """Return the last message of a session that failed."""
        return encode(fatal(error, self._numbers.get(error, 0)))

    def _options(self, query: str) -> FluxOptions:
        frontend = self._frontend
        silence_ms = frontend.settings.min_silence_ms
        return parse_flux_options(query, silence_ms, judged=frontend.turns is not None)


class _Flux:
    """The `Dialect` of one session."""

    def __init__(self, options: FluxOptions, replies: FluxReplies, idle_seconds: float) -> None:
        self.idle_seconds = idle_seconds
        self._options = options
        self._replies = replies
        self._thresholds = options.thresholds
        self._turns = Turns(options.policy, replies)

    def idle(self) -> NoAudio:
        """Return the error of a client that sent nothing for longer."""
        return NoAudio(self.idle_seconds)

    def talk(self, channel: int) -> Turns:
        """Return what tells the client of turns; there is one channel."""
        return self._turns

    def first(self) -> list[Reply]:
        """Return what the client is told before it sends anything."""
        connected = self._replies.connected()
        return [connected, *map(self._replies.warning, self._options.warnings)]

    def asked(self, text: str) -> Asked:
        """Return what a text message asks for. Raises ProtocolError if it is none."""
        match parse_message(text):
            case ForceEndTurn():
                return Asked(finalize=True)
            case CloseStream():
                return Asked(ends=True)
            case Configure() as wanted:
                return self._configured(wanted)
            case _:
                return Asked()

    def last(self, heard: Summary) -> list[Reply]:
        """Return the end of the turn that is open."""
        return self._turns.closed()

    def _configured(self, wanted: Configure) -> Asked:
        try:
            told = self._changed(wanted)
        except UnsupportedValue as error:
            refused = error
            return Asked(lambda: [self._replies.not_configured(refused)])
        before = self._turns.policy
        policy = told.policy(before.min_silence_ms, judged=before.judged)
        self._turns.policy, self._thresholds = policy, told
        return Asked(
            lambda: [self._replies.configured(told, self._options.context)],
            silence=policy.silence,
        )

    def _changed(self, wanted: Configure) -> Thresholds:
        for name, value in (("keyterms", wanted.keyterms), ("numerals", wanted.numerals)):
            if value:
                raise UnsupportedValue(
                    f"{name} cannot change within a session; open another connection", name
                )
        # Names and values of Thresholds are those of the message.
        changes = msgspec.to_builtins(wanted.thresholds) if wanted.thresholds else {}
        return read(Thresholds, msgspec.to_builtins(self._thresholds) | changes).checked()
