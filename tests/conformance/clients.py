"""A small client of each live protocol, with one interface for all of them."""

from __future__ import annotations

import asyncio
import base64
import json
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import UUID

import grpc.aio
import numpy as np
import websockets
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from auricle.audio.constants import SAMPLE_RATE
from auricle.frontend.protocols.audiosocket import HANG_UP
from auricle.frontend.protocols.kserve.service import SERVICE
from auricle.frontend.protocols.wyoming import EventParser
from auricle.frontend.transport.grpc.schema import message
from tests.conformance.served import Served
from tests.fakes import kserve, rpc
from tests.fakes.wyoming import sent

LOUD, QUIET = 8_000, 0  # 16-bit samples; LOUD is speech
# The errors of a call that has ended; its status has the reason.
_ENDED = (grpc.aio.AioRpcError, asyncio.InvalidStateError)
_REFUSAL_SECONDS = 0.1
_MULAW = {LOUD: b"\x80", QUIET: b"\xff"}


@dataclass(frozen=True)
class Ending:
    """The end of a client's session.

    `how`: "http" and the status of a refused handshake, a WebSocket's close code, the name of a
    gRPC status, "hung up" or "closed" by the server; "left" if the client ended it. `error` is the
    error code that the client received, `text` the whole error message. `finals` are the final
    texts.
    """

    how: str
    error: str = ""
    text: str = ""
    finals: tuple[str, ...] = ()

    @property
    def seen(self) -> str:
        """All fields except the text, as in the table."""
        return " ".join(filter(None, [self.how, self.error, *map(repr, self.finals)]))


class LiveClient(ABC):
    """One client of a protocol. Its methods are called in the order of their definition.

    `transport` names what `Served.serving` has to serve.
    """

    transport: ClassVar[str] = "websocket"

    def __init__(self, served: Served, secret: str | None = None) -> None:
        self.served = served
        self.secret = secret
        self.levels: list[int] = []  # of all audio sent
        self.segments = 1  # of speech in it
        self._ending: Ending | None = None

    @property
    def turn_has_ended(self) -> bool:
        """Whether the audio so far is speech followed by a silence that ends the turn."""
        return self.levels[-2:] == [LOUD, QUIET]

    @abstractmethod
    async def connect(self) -> None:
        """Connect. The server may refuse: `ended` then returns the reason."""

    async def begin(self) -> None:
        """Send the messages before the audio."""
        return

    async def speak(self, level: int, seconds: float = 1.0) -> None:
        """Send audio."""
        self.levels.append(level)
        await self.send(np.full(round(seconds * SAMPLE_RATE), level, "<i2").tobytes())

    async def send(self, samples: bytes) -> None:
        """Send 16-bit samples at 16 kHz, or bytes that are not audio."""
        raise NotImplementedError

    @abstractmethod
    async def end(self) -> None:
        """Send the end of the audio."""

    async def end_again(self) -> None:
        """Send the end a second time."""
        await self.end()

    async def ended(self) -> Ending:
        """Read until the session's end, once, and return how it ended."""
        if self._ending is None:
            self._ending = await self.read()
        return self._ending

    @abstractmethod
    async def read(self) -> Ending:
        """Read until the session's end."""

    @abstractmethod
    async def leave(self) -> None:
        """Disconnect, if still connected."""


# ── WebSockets ──────────────────────────────────────────────────────────────


class SocketClient(LiveClient):
    """A client on a WebSocket, whose messages are JSON objects."""

    path: ClassVar[str]
    _socket: websockets.ClientConnection | None = None
    _refused: websockets.Response | None = None

    async def connect(self) -> None:
        headers = {} if self.secret is None else {"Authorization": f"Bearer {self.secret}"}
        address = f"ws://127.0.0.1:{self.served.port}{self.path}"
        try:
            self._socket = await websockets.connect(
                address, additional_headers=headers, ping_interval=None
            )
        except websockets.InvalidStatus as refused:
            self._refused = refused.response

    async def send(self, samples: bytes) -> None:
        await self.put(samples)

    async def put(self, data: bytes | str) -> None:
        """Send a message, unless the server has closed the connection."""
        if self._socket is not None:
            with suppress(websockets.ConnectionClosed):  # `read` returns the ending
                await self._socket.send(data)

    async def put_json(self, **fields: Any) -> None:
        await self.put(json.dumps(fields))

    async def read(self) -> Ending:
        if self._refused is not None:
            body = (self._refused.body or b"").decode()
            told = json.loads(body)
            told = told.get("error", told) if isinstance(told.get("error"), dict) else told
            error = told.get("code") or told.get("err_code")
            return Ending(f"http {self._refused.status_code}", error, body)
        assert self._socket is not None
        finals: list[str] = []
        error, text = "", ""
        try:
            while True:
                told = json.loads(await self._socket.recv())
                if (found := self.error_in(told)) is not None:
                    error, text = found, json.dumps(told)
                elif (final := self.final_in(told)) is not None:
                    finals.append(final)
                if self.has_all(told, len(finals)):
                    await self._closed()
        except websockets.ConnectionClosed as closed:
            if not closed.rcvd_then_sent or closed.rcvd is None:
                return Ending("left", error, text, tuple(finals))
            frame = closed.rcvd
            return Ending(str(frame.code), error, text + frame.reason, tuple(finals))

    def error_in(self, told: dict[str, Any]) -> str | None:
        """The code of an error message."""
        return told["code"] if told["type"] in ("error", "Error") else None

    def final_in(self, told: dict[str, Any]) -> str | None:
        """The text of a message that has final text."""
        raise NotImplementedError

    async def _closed(self) -> None:
        assert self._socket is not None
        await self._socket.close()

    def has_all(self, told: dict[str, Any], finals: int) -> bool:
        """Whether the client leaves after this message and as many final texts.

        For protocols without an end message.
        """
        return False

    async def leave(self) -> None:
        if self._socket is not None:
            self._socket.transport.abort()
            await self._socket.wait_closed()


class Stream(SocketClient):
    path = "/v1/audio/stream"

    async def begin(self) -> None:
        await self.put_json(type="start", sample_rate=SAMPLE_RATE)

    async def end(self) -> None:
        await self.put_json(type="end")

    def final_in(self, told: dict[str, Any]) -> str | None:
        return told["text"] if told["type"] == "final" else None


class Realtime(SocketClient):
    """A session ends when its client leaves.

    These tests leave after the text of the only turn, or after the error of a commit without audio.
    """

    path = "/v1/realtime"
    append: ClassVar[str] = "input_audio_buffer.append"
    _ends = False

    async def speak(self, level: int, seconds: float = 1.0) -> None:
        self.levels.append(level)
        await self.send(np.full(round(seconds * 24_000), level, "<i2").tobytes())

    async def send(self, samples: bytes) -> None:
        await self.put_json(type=self.append, audio=base64.b64encode(samples).decode())

    async def end(self) -> None:
        self._ends = True
        if not self.turn_has_ended:
            await self.put_json(type="input_audio_buffer.commit")

    async def end_again(self) -> None:
        await self.put_json(type="input_audio_buffer.commit")

    def has_all(self, told: dict[str, Any], finals: int) -> bool:
        failed = told["type"] == "error" and not self.turn_has_ended
        answered = failed or finals == self.segments
        return (self._ends and answered) or told["type"].endswith(".failed")

    def error_in(self, told: dict[str, Any]) -> str | None:
        failed = told["type"] == "error" or told["type"].endswith(".failed")
        return told["error"]["code"] if failed else None

    def final_in(self, told: dict[str, Any]) -> str | None:
        return told["transcript"] if told["type"].endswith(".completed") else None


class Translations(Realtime):
    path = "/v1/realtime/translations"
    append = "session.input_audio_buffer.append"

    def has_all(self, told: dict[str, Any], finals: int) -> bool:
        return False

    async def end(self) -> None:
        await self.put_json(type="session.close")

    def final_in(self, told: dict[str, Any]) -> str | None:
        return told["delta"] if told["type"] == "session.output_transcript.delta" else None


class Listen(SocketClient):
    path = "/v1/listen?encoding=linear16&sample_rate=16000"

    async def end(self) -> None:
        await self.put_json(type="CloseStream")

    def error_in(self, told: dict[str, Any]) -> str | None:
        return told.get("variant") or told.get("code") if told["type"] == "Error" else None

    def final_in(self, told: dict[str, Any]) -> str | None:
        if told["type"] != "Results" or not told["is_final"]:
            return None
        text: str = told["channel"]["alternatives"][0]["transcript"]
        return text


class Flux(Listen):
    path = "/v2/listen?encoding=linear16&sample_rate=16000"

    def final_in(self, told: dict[str, Any]) -> str | None:
        return told["transcript"] if told.get("event") == "EndOfTurn" else None


class AssemblyAI(SocketClient):
    path = "/v3/ws?encoding=pcm_s16le&sample_rate=16000"

    async def end(self) -> None:
        await self.put_json(type="Terminate")

    def error_in(self, told: dict[str, Any]) -> str | None:
        return str(told["error_code"]) if told["type"] == "Error" else None

    def final_in(self, told: dict[str, Any]) -> str | None:
        return told["transcript"] if told["type"] == "Turn" and told["end_of_turn"] else None


class Vapi(SocketClient):
    """A call ends when Vapi leaves: here after the text of speech followed by silence."""

    path = "/v1/vapi"
    _ends = False

    async def begin(self) -> None:
        await self.put_json(type="start", sampleRate=SAMPLE_RATE, channels=1)

    async def end(self) -> None:
        self._ends = True
        if not self.turn_has_ended:
            await self._closed()

    def has_all(self, told: dict[str, Any], finals: int) -> bool:
        return self._ends and finals == self.segments

    def final_in(self, told: dict[str, Any]) -> str | None:
        return told["transcription"] if told.get("transcriptType") == "final" else None


class Twilio(SocketClient):
    """Its text is on the bus, and errors appear only in the reason of the close frame."""

    path = "/v1/twilio"

    async def begin(self) -> None:
        audio = {"encoding": "audio/x-mulaw", "sampleRate": 8_000, "channels": 1}
        key = {} if self.secret is None else {"api_key": self.secret}
        fields = {"streamSid": "MZ1", "callSid": "CA1", "tracks": ["inbound"]}
        start = fields | {"mediaFormat": audio, "customParameters": key}
        await self.put_json(event="start", start=start, streamSid="MZ1")

    async def connect(self) -> None:
        self.secret, secret = None, self.secret  # it cannot send a header
        await super().connect()
        self.secret = secret

    async def speak(self, level: int, seconds: float = 1.0) -> None:
        payload = base64.b64encode(_MULAW[level] * round(seconds * 8_000)).decode()
        await self.put_json(event="media", media={"track": "inbound", "payload": payload})

    async def end(self) -> None:
        await self.put_json(event="stop", stop={"callSid": "CA1"})

    async def read(self) -> Ending:
        ending = await super().read()
        return Ending(ending.how, ending.error, ending.text, _on_bus(self.served))


# ── gRPC ────────────────────────────────────────────────────────────────────


class RpcClient(LiveClient):
    """A client of a gRPC method whose requests and responses are streams."""

    transport = "grpc"
    method: ClassVar[str]
    _channel: grpc.aio.Channel | None = None

    async def connect(self) -> None:
        self._channel = grpc.aio.insecure_channel(f"127.0.0.1:{self.served.port}")
        self._call = self._channel.stream_stream(self.method)(
            metadata=rpc.bearer(self.secret), timeout=60
        )
        # If the server refuses a call while its client writes, the client library sets the status.
        ended = asyncio.Event()
        self._call.add_done_callback(lambda _call: ended.set())
        with suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), _REFUSAL_SECONDS)

    async def put(self, data: bytes) -> None:
        """Send a message, unless the server has ended the call."""
        with suppress(*_ENDED):
            await self._call.write(data)

    async def status(self, finals: list[str], error: str = "", text: str = "") -> Ending:
        """The status of the call."""
        details = dict(await self._call.trailing_metadata() or ()).get("grpc-status-details-bin")
        if details is not None:
            status, info = Status(), ErrorInfo()
            status.ParseFromString(details)
            assert status.details[0].Unpack(info)
            error = error or info.reason
        text += await self._call.details() or ""
        return Ending((await self._call.code()).name, error, text, tuple(finals))

    async def leave(self) -> None:
        if self._channel is not None:
            self._call.cancel()
            await self._channel.close()


class Riva(RpcClient):
    method = f"/{rpc.RIVA}/StreamingRecognize"

    async def begin(self) -> None:
        await self.put(rpc.first())

    async def send(self, samples: bytes) -> None:
        await self.put(rpc.audio(samples))

    async def end(self) -> None:
        await self._call.done_writing()

    async def read(self) -> Ending:
        finals: list[str] = []
        kind = message("nvidia.riva.asr.StreamingRecognizeResponse")
        with suppress(*_ENDED):
            while isinstance(data := await self._call.read(), bytes):
                told = kind.FromString(data)
                texts = [r.alternatives[0].transcript for r in told.results if r.is_final]
                finals += [text.strip() for text in texts]
        return await self.status(finals)


class KServe(RpcClient):
    """A stream with one sequence.

    A failed sequence does not end the stream, so the client ends it.
    """

    method = f"/{SERVICE}/ModelStreamInfer"
    _begun = False

    async def send(self, samples: bytes) -> None:
        starts = {} if self._begun else {"sequence_start": True}
        self._begun = True
        whole = {} if len(samples) % 2 == 0 else {"shape": [len(samples)]}
        asked = kserve.request(samples, sequence_id=7, **starts, **whole)
        await self.put(asked.SerializeToString())

    async def end(self) -> None:
        await self.put(kserve.request(sequence_id=7, sequence_end=True).SerializeToString())

    async def read(self) -> Ending:
        finals: list[str] = []
        error = text = ""
        kind = message("inference.ModelStreamInferResponse")
        with suppress(*_ENDED):
            while isinstance(data := await self._call.read(), bytes):
                told = kind.FromString(data)
                if told.error_message:
                    error = told.infer_response.parameters["code"].string_param
                    text = told.error_message
                elif kserve.is_final(told.infer_response):
                    finals += filter(None, [kserve.text_of(told.infer_response)])
                if kserve.is_last(told) and not self.served.admission.draining:
                    await self._call.done_writing()
        return await self.status(finals, error, text)


# ── TCP ─────────────────────────────────────────────────────────────────────


class TcpClient(LiveClient):
    """A client on a TCP connection. These protocols have no keys."""

    async def connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.served.port)

    async def put(self, data: bytes) -> None:
        """Send, unless the server has closed the connection."""
        with suppress(OSError):  # `read` returns the ending
            self._writer.write(data)
            await self._writer.drain()

    async def leave(self) -> None:
        self._writer.transport.abort()


class Wyoming(TcpClient):
    transport = "wyoming"
    _FORMAT: ClassVar[dict[str, int]] = {"rate": SAMPLE_RATE, "width": 2, "channels": 1}

    async def begin(self) -> None:
        await self.put(sent("audio-start", self._FORMAT))

    async def send(self, samples: bytes) -> None:
        await self.put(sent("audio-chunk", self._FORMAT, samples))

    async def end(self) -> None:
        await self.put(sent("audio-stop", {}))

    async def read(self) -> Ending:
        parser, finals = EventParser(1 << 20), list[str]()
        error = text = ""
        while data := await self._reader.read(1 << 16):
            parser.feed(data)
            while (event := parser.next()) is not None:
                if event.kind == "error":
                    error, text = event.data["code"], event.data["text"]
                elif event.kind == "transcript":
                    finals += filter(None, [event.data["text"]])
                elif event.kind == "transcript-stop":
                    return Ending("left", finals=tuple(finals))
        return Ending("closed", error, text, tuple(finals))


class AudioSocket(TcpClient):
    """Its text is on the bus, and an error is only a hang-up."""

    transport = "audiosocket"

    async def begin(self) -> None:
        await self.put(b"\x01\x00\x10" + UUID(int=1).bytes)

    async def speak(self, level: int, seconds: float = 1.0) -> None:
        samples = np.full(round(seconds * 8_000), level, "<i2").tobytes()
        for at in range(0, len(samples), 320):
            await self.send(samples[at : at + 320])

    async def send(self, samples: bytes) -> None:
        await self.put(b"\x10" + len(samples).to_bytes(2, "big") + samples)

    async def end(self) -> None:
        await self.put(HANG_UP)

    async def read(self) -> Ending:
        try:
            data = await self._reader.read()
        except ConnectionResetError:  # the server closed with unread data
            data = HANG_UP
        how = "hung up" if data == HANG_UP else "closed"
        return Ending(how, finals=_on_bus(self.served))


def _on_bus(served: Served) -> tuple[str, ...]:
    return tuple(text for *_, text in served.bus.finals)


CLIENTS: dict[str, type[LiveClient]] = {
    "stream": Stream,
    "realtime": Realtime,
    "translations": Translations,
    "listen": Listen,
    "flux": Flux,
    "assemblyai": AssemblyAI,
    "vapi": Vapi,
    "twilio": Twilio,
    "riva": Riva,
    "kserve": KServe,
    "wyoming": Wyoming,
    "audiosocket": AudioSocket,
}
