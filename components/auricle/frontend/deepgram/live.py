"""`WS /v1/listen`: Deepgram's live protocol."""

from __future__ import annotations

from auricle.errors import AuricleError, ProtocolError
from auricle.frontend.deepgram import messages
from auricle.frontend.deepgram.messages import (
    CloseStream,
    Configure,
    Finalize,
    NoAudio,
    Replies,
)
from auricle.frontend.deepgram.options import ListenOptions, parse_options
from auricle.frontend.deepgram.utterances import Utterances
from auricle.frontend.dialects.messages import Reply, encode
from auricle.frontend.dialects.session import Asked, Session, Summary
from auricle.frontend.doors.sockets import ClientSocket, SocketProtocol
from auricle.frontend.frontend import Frontend

# A browser's client offers one of these, and then its key, as subprotocols.
SUBPROTOCOLS = ("token", "bearer")


def listen_protocol(frontend: Frontend) -> SocketProtocol:
    """Return the protocol of `/v1/listen`, for the frontend's event loop."""
    listen = ListenProtocol(frontend)
    return SocketProtocol(
        *("listen", listen.serve, listen.error, SUBPROTOCOLS),
        check=listen.check,
        denial=messages.denial,
        sessions=listen.sessions,
    )


class ListenProtocol:
    """Serves the sessions of `/v1/listen`, on the frontend's event loop."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend

    def check(self, query: str) -> None:
        """Raise BadRequest, before the handshake, if the query's options cannot be served."""
        options = self._options(query)
        self._frontend.check_model(options.model)
        self._frontend.check_words(options.words == "aligned", "word_times")

    def sessions(self, query: str) -> int:
        """Return how many sessions a query asks for: one for each channel."""
        return self._options(query).channels

    async def serve(self, socket: ClientSocket) -> None:
        """Serve one session until done. Raises AuricleError if it fails, ClientGone if the client
        leaves."""
        options = self._options(socket.query_string)
        idle = self._frontend.settings.listen_idle_seconds
        dialect = _Live(options, socket.session, self._frontend.model, idle)
        await Session(self._frontend, socket, options, dialect).run()

    def _options(self, query: str) -> ListenOptions:
        return parse_options(query, self._frontend.settings.max_channels)

    @staticmethod
    def error(error: AuricleError) -> str:
        """Return the last message of a session that failed."""
        return encode(messages.error_message(error))


class _Live:
    """The `Dialect` of one session."""

    def __init__(
        self, options: ListenOptions, request: str, model: str, idle_seconds: float
    ) -> None:
        self.idle_seconds = idle_seconds
        self._options = options
        self._replies = Replies(request, model, channels=options.channels)

    def idle(self) -> NoAudio:
        """Return the error of a client that sent nothing for longer."""
        return NoAudio(self.idle_seconds)

    def talk(self, channel: int) -> Utterances:
        """Return what tells the client of one channel."""
        return Utterances(self._options, self._replies.of(channel))

    def first(self) -> list[Reply]:
        """A session begins without a word."""
        return []

    def asked(self, text: str) -> Asked:
        """Return what a text message asks for; one that is none is answered."""
        try:
            message = messages.parse_message(text)
        except ProtocolError as error:
            answer = messages.schema_error(error, text)
            return Asked(lambda: [answer])
        match message:
            case Finalize():
                return Asked(finalize=True)
            case Configure():
                return Asked(lambda: [self._replies.configure_failure()])
            case CloseStream():
                return Asked(ends=True)
            case _:
                return Asked()

    def last(self, heard: Summary) -> list[Reply]:
        """Return the metadata."""
        return [
            self._replies.metadata(
                heard.seconds, heard.sha256, heard.created, self._options.warnings
            )
        ]
