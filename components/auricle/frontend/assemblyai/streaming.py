"""`WS /v3/ws`: AssemblyAI's streaming protocol."""

from __future__ import annotations

from datetime import UTC, datetime

from auricle.errors import AuricleError, DeadlineExceeded, UnsupportedValue
from auricle.frontend.assemblyai.messages import (
    ForceEndpoint,
    Replies,
    Terminate,
    UpdateConfiguration,
    close_code,
    denial,
    error_message,
    parse_changes,
    parse_message,
)
from auricle.frontend.assemblyai.options import StreamingOptions, parse_options
from auricle.frontend.dialects.messages import Reply, encode
from auricle.frontend.dialects.session import Asked, Session, Summary
from auricle.frontend.dialects.turns import Turns
from auricle.frontend.doors.sockets import ClientSocket, SocketProtocol
from auricle.frontend.frontend import Frontend


def assemblyai_protocol(frontend: Frontend) -> SocketProtocol:
    """Return the protocol of `/v3/ws`, for the frontend's event loop."""
    streaming = StreamingProtocol(frontend)
    return SocketProtocol(
        *("assemblyai", streaming.serve, streaming.error),
        check=streaming.check,
        denial=denial,
        close_code=close_code,
    )


class StreamingProtocol:
    """Serves the sessions of `/v3/ws`, on the frontend's event loop."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend

    def check(self, query: str) -> None:
        """Raise BadRequest, before the handshake, if the query's options cannot be served."""
        options = self._options(query)
        self._frontend.check_model(options.model)
        self._frontend.check_words(options.words == "aligned", "word_times")

    async def serve(self, socket: ClientSocket) -> None:
        """Serve one session until done. Raises AuricleError if it fails, ClientGone if the client
        leaves."""
        options = self._options(socket.query_string)
        replies = Replies(socket.session, self._frontend.model, options)
        idle = options.idle_seconds or self._frontend.settings.idle_timeout_seconds
        dialect = _Streaming(options, replies, idle)
        await Session(self._frontend, socket, options, dialect).run()

    @staticmethod
    def error(error: AuricleError) -> str:
        """Return the last message of a session that failed."""
        return encode(error_message(error))

    def _options(self, query: str) -> StreamingOptions:
        frontend = self._frontend
        silence_ms = frontend.settings.min_silence_ms
        return parse_options(query, silence_ms, judged=frontend.turns is not None)


class _Streaming:
    """The `Dialect` of one session."""

    def __init__(self, options: StreamingOptions, replies: Replies, idle_seconds: float) -> None:
        self.idle_seconds = idle_seconds
        self._options = options
        self._replies = replies
        self._turns = Turns(options.policy, replies)

    def idle(self) -> DeadlineExceeded:
        """Return the error of a client that sent nothing for longer."""
        return DeadlineExceeded(
            f"neither audio nor a KeepAlive message came within {self.idle_seconds:g} s"
        )

    def talk(self, channel: int) -> Turns:
        """Return what tells the client of turns; there is one channel."""
        return self._turns

    def first(self) -> list[Reply]:
        """Return what the client is told before it sends anything."""
        return [self._replies.begin()]

    def asked(self, text: str) -> Asked:
        """Return what a text message asks for. Raises ProtocolError if it is none."""
        match parse_message(text):
            case ForceEndpoint():
                return Asked(finalize=True)
            case Terminate():
                return Asked(ends=True)
            case UpdateConfiguration():
                return self._updated(text)
            case _:
                return Asked()

    def last(self, heard: Summary) -> list[Reply]:
        """Return the end of the turn that is open, and of the session.

        Clients take a session whose server leaves for finished if they are told of its end; the
        close code says that it is not.
        """
        ended = self._turns.closed()
        if heard.left:
            return ended
        seconds = (datetime.now(UTC) - heard.created).total_seconds()
        return [*ended, self._replies.termination(heard, seconds)]

    def _updated(self, text: str) -> Asked:
        try:
            options = self._options.updated(parse_changes(text))
        except UnsupportedValue as error:
            refused = self._replies.not_changed(error)
            return Asked(lambda: [refused])
        before, self._options = self._options, options
        self._turns.policy, self._replies.options = options.policy, options
        self._replies.warn(options.warnings)
        # An update that is not about silences does not touch the listening.
        changed = options.silence != before.silence
        return Asked(silence=options.silence if changed else None)
