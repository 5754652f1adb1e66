"""`WS /v1/realtime/translations`: OpenAI's realtime translations, as text without audio."""

from __future__ import annotations

from auricle.errors import BadRequest, ProtocolError, UnsupportedValue
from auricle.frontend.channel import Channel, follow
from auricle.frontend.doors.sockets import ClientSocket, SocketProtocol
from auricle.frontend.frontend import Frontend
from auricle.frontend.realtime import events
from auricle.frontend.realtime.running_text import RunningText
from auricle.frontend.realtime.socket import SUBPROTOCOLS, RealtimeProtocol
from auricle.frontend.realtime.translation_events import (
    ENCODING,
    RATE,
    Append,
    ClientEvent,
    Close,
    Config,
    Update,
    parse,
)
from auricle.messages.sessions import Final, Partial
from auricle.messages.translations import Translation
from auricle.tasks import Interrupted
from auricle.text_bounds import query_fields
from auricle.translation.targets import NO_TRANSLATOR, SAME


def translations_protocol(frontend: Frontend) -> SocketProtocol:
    """Return the protocol of `/v1/realtime/translations`, for the frontend's event loop."""

    def check(query: str) -> None:
        """Raise BadRequest, before the handshake, if there is no such model or no translator."""
        frontend.check_model(query_fields(query).get("model"))
        if frontend.directions.targets is None:
            raise UnsupportedValue(NO_TRANSLATOR, "model")

    async def serve(socket: ClientSocket) -> None:
        await _Session(frontend, socket).run()

    return SocketProtocol(
        *("translations", serve, RealtimeProtocol.error, SUBPROTOCOLS), check=check
    )


class _Session:
    """One connection. The target language is fixed once audio has come."""

    def __init__(self, frontend: Frontend, socket: ClientSocket) -> None:
        self._frontend = frontend
        self._socket = socket
        self._config = Config()
        self._channel: Channel | None = None
        self._input, self._output = RunningText(), RunningText()
        self._finals: dict[int, Final] = {}  # whose translation is still to come

    async def run(self) -> None:
        """Run until the client closes the session, or draining ends it.

        An event that is wrong is answered with an error event. Raises AuricleError if the session
        fails, ClientGone if the client leaves.
        """
        await self._emit("session.created", session=self._described())
        first = await self._next()
        if isinstance(first, Append):
            self._channel = channel = Channel(
                *(self._frontend, self._socket, RATE, ENCODING),
                translate=self._config.language,
                translated=self._translated,
            )
            await follow([channel], self._read(channel, first), self._told)
        await self._emit("session.closed")

    async def _read(self, channel: Channel, event: ClientEvent | None) -> None:
        while isinstance(event, Append):
            await channel.take(event.audio)
            event = await self._next()

    async def _next(self) -> Append | Close | None:
        """Return the client's next audio or end; None if draining ends the session before."""
        while not self._frontend.front_door.ends(self._resting):
            try:
                text, _ = await self._socket.receive(
                    self._frontend.settings.realtime_idle_seconds, "the next event of the client"
                )
            except Interrupted:
                continue
            if text is None:
                raise ProtocolError("binary frames are not part of this protocol; send JSON events")
            self._frontend.metrics.bytes("websocket", len(text))
            named: str | None = None
            try:
                event = parse(text)
                named = event.event_id
                if not isinstance(event, Update):
                    return event
                await self._update(event)
            except BadRequest as error:
                await self._socket.send(events.encode(events.error_event(error, named)))
        self._socket.goes_at(0 if self._channel is None else self._channel.heard_samples)
        return None

    def _resting(self) -> bool:
        return self._channel is None or self._channel.resting

    async def _update(self, event: Update) -> None:
        config = self._config.updated(event.session)
        if self._channel is not None and config.language != self._config.language:
            raise UnsupportedValue(
                "the language cannot change once audio has come; open another session",
                "session.audio.output.language",
            )
        self._frontend.check_translator((config.language,), "session.audio.output.language")
        self._config = config
        await self._emit("session.updated", session=self._described())

    async def _told(self, _number: int, event: Partial | Final) -> None:
        """Tell the text, if the client wants it."""
        ended = isinstance(event, Final)
        text = event.text if isinstance(event, Final) else event.committed
        new = self._input.grown(event.segment, text, ended=ended)
        if new and self._config.transcription is not None:
            await self._emit("session.input_transcript.delta", delta=new)
        if isinstance(event, Final) and event.text:
            self._finals[event.segment] = event
        elif ended:  # nothing was said, so no translation follows
            await self._tell(self._output.grown(event.segment, "", ended=True))

    async def _translated(self, event: Translation) -> None:
        text = event.committed
        final = self._finals.pop(event.segment, None) if event.final else None
        if final is not None and event.missing == SAME:
            text = final.text
        elif final is not None and event.missing:
            said = f"the text at {final.start_ms / 1000:.1f} s is not translated: {event.missing}"
            error = {"type": "server_error", "code": event.missing, "message": said}
            await self._emit("error", error=error | {"param": None, "event_id": None})
        await self._tell(self._output.grown(event.segment, text, ended=event.final))

    async def _tell(self, new: str) -> None:
        if new:
            await self._emit("session.output_transcript.delta", delta=new)

    def _described(self) -> dict[str, object]:
        return self._config.described(self._socket.session, self._frontend.model)

    async def _emit(self, kind: str, **fields: object) -> None:
        await self._socket.send(events.encode(events.server_event(kind, **fields)))
