"""The calls of one connection, as they are seen in its frames. No I/O.

gRPC's library has one limit of message size for all methods, and none for all clients together. So
the bytes are counted on their way.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import hpack

from auricle.core.errors import AuricleError, BadRequest, Overloaded, RateLimited, TooLarge
from auricle.frontend.transport.addresses import Networks
from auricle.frontend.transport.connections import Connections, Watched
from auricle.frontend.transport.grpc import frames
from auricle.frontend.transport.grpc.frames import FrameKind
from auricle.frontend.transport.grpc.incoming import Code, Peer, status_of
from auricle.frontend.transport.slots import NetworkLimit, NetworkRates

# Of a message whose client was not admitted. The library buffers as much of each call.
UNADMITTED_BYTES = 64 * 1024
# Frames without data in a row, of a connection that the library may end for another reason.
_MOST_WITHOUT_DATA = 32
# Encoded headers of a call: a bound, and how many a network may send a second. Decoding them costs
# more than passing them on.
_MOST_HEADER_BYTES, _HEADER_BYTES_PER_FRAME = 16 * 1024, 250
# A new call counts as ten more frames: a refusal or a reset costs its client nothing, and the
# library makes the whole call before.
_CALL_FRAMES = 10.0
_PREFIX_BYTES = 5  # of a message: whether it is compressed, and its size


class RpcCall:
    """One call, from its first frame to its last. Call its methods on the event loop.

    Raises RateLimited or Overloaded if too many calls wait for the library.

    It is admitted while its client has a session or a recording. Otherwise a message has at most
    `UNADMITTED_BYTES`, or `largest` if its client is known, and is counted.
    """

    __slots__ = (
        *("_admissions", "_calls", "_held", "_largest", "_left", "_prefix", "_received"),
        *("_size", "_waits", "answered", "ended", "failure", "stream"),
    )

    def __init__(self, calls: RpcCalls, stream: int) -> None:
        self._calls = calls
        self.stream = stream
        self._held = calls.connections.held.of(calls.networks, self._end)
        self._largest = UNADMITTED_BYTES
        self._prefix = bytearray()
        self._size = self._left = 0  # of the message that is received
        self._received = 0
        self._waits: tuple[NetworkLimit, Networks] = calls.waiting, calls.networks
        calls.waiting.enter(calls.networks)
        self._admissions = 0  # sessions and recordings of this call
        self.answered = self.ended = False
        self.failure: AuricleError | None = None

    @property
    def peer(self) -> Peer:
        """The address of the client, or of its proxy."""
        return self._calls.client

    def wait(self, limit: NetworkLimit, networks: Networks) -> None:
        """Count among these calls from now on, until it is admitted, and no longer among those that
        wait for the library. Raises RateLimited and Overloaded."""
        if not self.ended:
            limit.enter(networks)
            before, of = self._waits
            before.leave(of)
            self._waits = limit, networks

    def known(self, tenant: str) -> None:
        """The client may send messages of any allowed size. Raises RateLimited."""
        self._largest = self._calls.largest
        if not self.ended:
            self._held.belongs_to(tenant)

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """The client has a session or a recording while the block runs."""
        self._largest = self._calls.largest
        self._admit(1)
        try:
            yield
        finally:
            self._admit(-1)

    def _admit(self, more: int) -> None:
        before, self._admissions = self._admissions, self._admissions + more
        if self.ended or bool(before) is bool(self._admissions):
            return
        self._calls.connections.used(self._calls.connection, more)
        if more > 0:
            self._release()
        else:
            limit, networks = self._waits
            limit.enter(networks, always=True)

    def close(self) -> None:
        """The call has ended. Does nothing if it had ended before."""
        if self.ended:
            return
        self.ended = True
        if self._admissions:
            self._calls.connections.used(self._calls.connection, -1)
        else:
            self._release()

    def _release(self) -> None:
        """Count no longer among the calls that are not admitted."""
        self._held.close()
        limit, networks = self._waits
        limit.leave(networks)

    def received(self, part: memoryview) -> None:
        """Follow the messages in the next bytes that the client sends."""
        at, size = 0, len(part)
        while at < size and not self.ended:
            if not self._left:
                taken = part[at : at + _PREFIX_BYTES - len(self._prefix)]
                self._prefix += taken
                at += len(taken)
                if len(self._prefix) == _PREFIX_BYTES:
                    self._begun(int.from_bytes(self._prefix[1:], "big"))
            else:
                step = min(self._left, size - at)
                self._left -= step
                at += step
        self._received += size
        if not self._admissions and not self.ended:
            self._count()

    def _begun(self, size: int) -> None:
        """A message of `size` bytes begins."""
        self._prefix.clear()
        self._size = self._left = size
        if size > self._calls.largest:
            self._end(_too_large(size, self._calls.largest))

    def _count(self) -> None:
        """Count the bytes of this call that the library may hold."""
        received = self._size - self._left
        if received > self._largest:
            self._end(_too_large(self._size, self._largest))
            return
        try:
            self._held.set(max(received, min(self._received, UNADMITTED_BYTES)))
        except (RateLimited, Overloaded) as error:
            self._end(error)

    def _end(self, error: AuricleError) -> None:
        self._calls.end(self, error)


def _too_large(size: int, most: int) -> TooLarge:
    return TooLarge(f"a message of the call has {size} bytes, and may have {most}")


class RpcCalls:
    """The calls of one connection, by their streams; `largest` bounds any message."""

    def __init__(
        self,
        connections: Connections,
        connection: Watched,
        largest: int,
        send: tuple[Callable[[bytes], None], Callable[[bytes], None]],
        mark: Callable[[int], tuple[str, str]],
        frames_rate: NetworkRates,
        waiting: NetworkLimit,
    ) -> None:
        """`send` passes frames of our own to the client, and to the library. `mark` returns the
        header by which the library's call is recognized. `frames_rate` limits frames without
        data, `waiting` the calls that wait for the library."""
        self.connections = connections
        self.connection = connection
        self.client = connection.client
        self.networks = connections.networks_of(connection.client)
        self.largest = largest
        self.waiting = waiting
        self.open: dict[int, RpcCall] = {}
        self.from_client = _FromClient(self, mark, frames_rate)
        self.from_server = _FromServer(self)
        self._to_client, self._to_library = send

    def begin(self, stream: int) -> AuricleError | None:
        """A call begins. Return the error if too many wait: then `refuse` it."""
        try:
            self.open[stream] = RpcCall(self, stream)
        except (RateLimited, Overloaded) as error:
            return error
        return None

    def end(self, call: RpcCall, error: AuricleError) -> None:
        """End one call with `error`, in place of the library."""
        call.failure = error
        self.refuse(call.stream, error, answered=call.answered)
        self._to_library(frames.reset(call.stream, frames.CANCEL))
        self.close(call.stream)

    def refuse(self, stream: int, error: AuricleError, *, answered: bool = False) -> None:
        """Send the client the error that ends a call; `answered` if it has the call's headers."""
        self.connections.log(self.connection, error)
        status = status_of(error)
        code = Code.RESOURCE_EXHAUSTED if isinstance(error, TooLarge) else status.code
        headers = [("grpc-status", str(int(code))), ("grpc-message", status.message)]
        if not answered:
            headers[:0] = [(":status", "200"), ("content-type", "application/grpc")]
        for name, value in status.metadata:
            text = value if isinstance(value, str) else b64encode(value).decode().rstrip("=")
            headers.append((name, text))
        flags = frames.END_STREAM | frames.END_HEADERS
        block = frames.header_block(headers)
        answer = frames.frame(FrameKind.HEADERS, flags, stream, block)
        self._to_client(answer + frames.reset(stream, frames.NO_ERROR))

    def flooded(self) -> None:
        """The client sends too many frames without data."""
        self.connections.flooded(self.connection)

    def library_gone(self) -> None:
        """The library has ended the connection, which it does after a few superfluous frames."""
        if self.from_client.without_data > _MOST_WITHOUT_DATA:
            self.flooded()

    def close(self, stream: int) -> None:
        """A call has ended, if it is open."""
        if (call := self.open.pop(stream, None)) is not None:
            call.close()

    def close_all(self) -> None:
        for stream in tuple(self.open):
            self.close(stream)


class _Headers:
    """The headers that a client sends, which are decoded in the order of their arrival.

    The library ends its whole server if the path of a call is not UTF-8, and takes headers for
    complete that are not. So it receives them only when they are.
    """

    def __init__(self) -> None:
        self._decoder = hpack.Decoder()
        self._block = bytearray()
        self._fragment = bytearray()  # of the frame that is received
        self._flags = self._ends = 0  # of the frame, and of the first one
        self._stream: int | None = None  # whose headers are not complete
        self.open = False

    def check_order(self, kind: int, stream: int) -> None:
        """Raise BadRequest if a frame interrupts headers, or continues none (RFC 9113, 6.10)."""
        continues = kind == FrameKind.CONTINUATION
        if continues is (self._stream is None) or (continues and stream != self._stream):
            raise BadRequest("headers of a call are interrupted, or continue none")

    def begin(self, kind: int, flags: int, stream: int, size: int) -> None:
        """A frame of headers begins. Raises BadRequest if they have too many bytes."""
        if len(self._block) + size > _MOST_HEADER_BYTES:
            raise BadRequest(f"the headers of a call have more than {_MOST_HEADER_BYTES} bytes")
        self._flags, self.open = 0, True
        if kind == FrameKind.HEADERS:
            self._flags = self._ends = flags
        self._stream = None if flags & frames.END_HEADERS else stream

    def add(self, part: memoryview) -> None:
        self._fragment += part

    def end(self) -> None:
        """The frame is complete."""
        if self.open:
            self._block += frames.header_fragment(self._flags, bytes(self._fragment))
            self._fragment.clear()
            self.open = False

    def complete(self) -> tuple[int, bytes]:
        """Return complete headers, and whether they end the stream, as a flag.

        Raises BadRequest if the library must not see them.
        """
        block = bytes(self._block)
        try:
            headers = self._decoder.decode(block, raw=True)
        except (hpack.HPACKError, UnicodeDecodeError):
            raise BadRequest("the headers of a call cannot be decoded") from None
        self._block.clear()
        if any(name == b":path" and not value.isascii() for name, value in headers):
            raise BadRequest("the path of a call has bytes that are not ASCII")
        return self._ends & frames.END_STREAM, block


class _FromClient:
    """Follows the client's frames: opens calls, and counts their bytes."""

    def __init__(
        self, calls: RpcCalls, mark: Callable[[int], tuple[str, str]], frames_rate: NetworkRates
    ) -> None:
        self._calls = calls
        self._mark = mark
        self._frames_rate = frames_rate
        self._newest = 0
        self._headers = _Headers()
        self.without_data = 0  # frames since the last one with data
        self._call: RpcCall | None = None  # whose data the frame has
        self._marked: int | None = None  # the stream whose headers end with this frame
        self._refused: AuricleError | None = None  # the newest call, when its headers end

    def begin(self, kind: int, flags: int, stream: int, size: int) -> bool:
        """Raises RateLimited if the client's network sends too many frames without data, BadRequest
        for headers that are too large or interrupted."""
        self._headers.check_order(kind, stream)
        if kind == FrameKind.DATA and size:
            self._call = self._calls.open.get(stream)
            self.without_data = 0
            return True
        self._call = None
        self.without_data += 1
        self._frames_rate.spend(self._calls.networks)
        if kind == FrameKind.HEADERS and stream > self._newest:
            self._newest = stream
            self._frames_rate.charge(self._calls.networks, _CALL_FRAMES)
            self._refused = self._calls.begin(stream)
        elif kind == FrameKind.RST_STREAM:
            self._calls.close(stream)
        if kind in (FrameKind.HEADERS, FrameKind.CONTINUATION):
            self._headers.begin(kind, flags, stream, size)
            self._frames_rate.charge(self._calls.networks, size / _HEADER_BYTES_PER_FRAME)
            if flags & frames.END_HEADERS:
                self._marked = stream
            return False
        return True

    def payload(self, part: memoryview) -> None:
        if self._call is not None:
            self._call.received(part)
        elif self._headers.open:
            self._headers.add(part)

    def end(self) -> bytes:
        """Return complete headers with our own, and the end of the call if it is refused.

        The library must know all headers, because later ones refer to them. Raises BadRequest for
        headers that it must not see.
        """
        self._headers.end()
        if (stream := self._marked) is None:
            return b""
        flags, block = self._headers.complete()
        mark = frames.header_block([self._mark(stream)])
        more = frames.frame(FrameKind.HEADERS, flags, stream, block)
        more += frames.frame(FrameKind.CONTINUATION, frames.END_HEADERS, stream, mark)
        self._marked = None
        if self._refused is not None:
            self._calls.refuse(stream, self._refused)
            more += frames.reset(stream, frames.CANCEL)
            self._refused = None
        return more


class _FromServer:
    """Follows the library's frames: closes calls."""

    def __init__(self, calls: RpcCalls) -> None:
        self._calls = calls

    def begin(self, kind: int, flags: int, stream: int, size: int) -> bool:
        if kind == FrameKind.HEADERS and (call := self._calls.open.get(stream)) is not None:
            call.answered = True
        ends = kind in (FrameKind.DATA, FrameKind.HEADERS) and flags & frames.END_STREAM
        if ends or kind == FrameKind.RST_STREAM:
            self._calls.close(stream)
        return True

    def payload(self, part: memoryview) -> None:
        pass

    def end(self) -> bytes:
        return b""
