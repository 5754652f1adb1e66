"""HTTP and WebSocket on the wire: heads of requests, multipart forms, frames."""

from __future__ import annotations

import struct
import zlib
from functools import cache
from urllib.parse import quote

from hypothesis import strategies as st

from auricle.frontend.protocols.deepgram.options import DeepgramOptions
from auricle.frontend.protocols.transcriptions.form import LISTS, TranscriptionForm
from auricle.frontend.protocols.transcriptions.translating import TranslationForm
from auricle_testing import wire
from auricle_testing.wire import BINARY, PING, TEXT, frame
from benchmarks.hostile.inputs import RAW, Leaving, Post, Session, Stream
from benchmarks.hostile.strategies import values as v
from benchmarks.hostile.strategies.messages import LISTEN, REALTIME, STREAM, queries
from benchmarks.hostile.strategies.values import Draw, chance, pick

CLOSE = frame(wire.CLOSE, struct.pack(">H", 1000))
END = frame(TEXT, b'{"type": "end"}')
KEY = b"@KEY"  # stands for the attacker's API key
TRANSCRIPTIONS, TRANSLATED = "/v1/audio/transcriptions", "/v1/audio/translations"
JOBS = "/v1/audio/jobs"
_PATHS = (
    *("/live", "/health", "/metrics", "/v1/models", f"/v1/models/{v.MODEL}", "/openapi.json"),
    *("/docs", TRANSCRIPTIONS, TRANSLATED, STREAM, REALTIME),
)
_INNER_PATHS = (
    *("/components", "/components/PdWorker/replicas", "/health", "/live", "/metrics", "/"),
    *("/engine/x", "/v1/loras", "/components/..%2f/replicas"),
)
_METHODS = (b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"TRACE", b"BREW")
_HEADERS = (
    *("accept", "content-type", "content-length", "origin", "range", "cookie", "expect", "host"),
    *("authorization", "x-forwarded-for", "transfer-encoding", "traceparent", "if-none-match"),
    *("upgrade", "te", "connection", "sec-websocket-protocol", "sec-websocket-extensions"),
    *("sec-websocket-version", "forwarded"),
)
_TARGETS = (
    *(b"/%2e%2e/v1", b"//v1", b"http://x/v1", b"*", b"/v1/../v1", b"/\0", b"/%00", b"/%ff%fe"),
    *(b"/%zz", b"/v1?\xff\xfe\x00", b"/" + b"a" * 9_000, b"/" + b"a" * 80_000),
)
_BODIES = (b"Content-Length: 5", b"Transfer-Encoding: chunked", b"Content-Length: -1")
_GREETINGS = (b"\x16\x03\x01", b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")


def handshake(path: str, *, key: str = "", extensions: str = "") -> bytes:
    """A valid opening handshake of a WebSocket; `key` is an API key."""
    more = f"Authorization: Bearer {key}\r\n" if key else ""
    more += f"Sec-WebSocket-Extensions: {extensions}\r\n" if extensions else ""
    return wire.handshake(path)[:-2] + more.encode() + b"\r\n"


def _header(draw: Draw) -> bytes:
    value = draw(v.texts)[:3_000].encode().translate(None, b"\r\n\0")
    return pick(draw, _HEADERS).encode() + b": " + value


@st.composite
def handshakes(draw: Draw) -> Stream:
    """A handshake with one thing wrong, in one or two pieces."""
    first, *lines = handshake(pick(draw, (STREAM, REALTIME))).split(b"\r\n")[:-2]
    words, what = first.split(), draw(st.integers(0, 11))
    if what < 3:
        lines.append(_header(draw))
    elif what == 3:
        lines *= draw(st.integers(2, 30))
    elif what == 4:
        lines.append(b"X-A: " + b"a" * pick(draw, (1_000, 16_000, 70_000, 200_000)))
    elif what == 5:
        lines += [b"X-%d: 1" % number for number in range(pick(draw, (50, 300, 2_000)))]
    elif what == 6:
        words[1] = pick(draw, _TARGETS)
    elif what == 7:
        words[0] = pick(draw, (*_METHODS, b"PRI", b"CONNECT", b"\xff", b"", b"G" * 9_000))
    elif what == 8:
        words[2] = pick(draw, (b"HTTP/1.0", b"HTTP/2.0", b"HTTP/9", b""))
    elif what == 9:
        lines = [line for line in lines if chance(draw, 70)]
    elif what == 10:
        lines += [pick(draw, _BODIES), b"", b"0"]
    data = b"\r\n".join((b" ".join(words), *lines, b"", b""))
    if what == 11:
        garbage = pick(draw, _GREETINGS) + draw(v.noise(300))
        data = garbage if chance(draw, 30) else v.wrong(draw, data)
    at = draw(st.integers(1, len(data))) if data and chance(draw, 15) else len(data)
    return Stream("http", tuple(filter(None, (data[:at], data[at:]))))


@st.composite
def requests(draw: Draw) -> Stream:
    """A request without a body, with any target and headers."""
    path = pick(draw, _PATHS)
    if chance(draw, 30):
        path += "/" + quote(draw(v.short_texts), safe=pick(draw, ("", "/%?")))
    if chance(draw, 60):
        pairs = (
            f"{quote(draw(v.texts)[:3_000], safe='&=[]')}={quote(draw(v.texts)[:3_000])}"
            for _ in range(pick(draw, (1, 1, 3, 40)))
        )
        path += "?" + "&".join(pairs)[:12_000]
    target = path.encode().translate(None, b"\r\n").replace(b" ", b"+")
    lines = [pick(draw, _METHODS) + b" " + target + b" HTTP/1.1", b"Host: 127.0.0.1"]
    lines += [_header(draw) for _ in v.some(draw, 2)]
    lines += [b"Connection: close", b"Authorization: Bearer " + KEY, b"", b""]
    return Stream("http", (b"\r\n".join(lines),))


_JOB_IDS = (
    *(
        "job_" + "0" * 32,
        "job_",
        "..",
        "%2e%2e",
        "..%2fjobs.sqlite",
        "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    ),
    *("%00", "%ff", "job_' OR 1=1 --", '"', "*", "%", "a" * 64, "a" * 65, "a" * 9_000, "result"),
)
_JOB_TAILS = ("", "", "/result", "/result/", "/", "/body", "/../..", "/%2e%2e", "/result/x")
_PREFERENCES = (
    *(b"respond-async", b"RESPOND-ASYNC; x=1", b",,respond-async,,", b"respond-async=", b"wait=1"),
    *(b"respond-async\xff", b"," * 9_000),
)


@st.composite
def jobs(draw: Draw) -> Stream:
    """A request for a job that does not exist, for the list, or for a job without a recording."""
    path = JOBS
    if chance(draw, 75):
        name = pick(draw, _JOB_IDS) if chance(draw, 70) else quote(draw(v.short_texts))
        path += f"/{name}" + pick(draw, _JOB_TAILS)
    if chance(draw, 40):
        names = ("limit", "after", "status", "", "limit[]")
        pairs = (f"{pick(draw, names)}={quote(draw(v.texts)[:3_000])}" for _ in v.some(draw, 3))
        path += "?" + "&".join(pairs)
    target = path.encode().translate(None, b"\r\n").replace(b" ", b"+")
    lines = [pick(draw, _METHODS) + b" " + target + b" HTTP/1.1", b"Host: 127.0.0.1"]
    lines += [b"Prefer: " + pick(draw, _PREFERENCES) for _ in v.some(draw, 2)]
    lines += [_header(draw) for _ in v.some(draw, 1)]
    lines += [b"Connection: close", b"Authorization: Bearer " + KEY, b"", b""]
    return Stream("http", (b"\r\n".join(lines),))


_CHUNK_SIZES = (b"5", b"0x5", b"-5", b"+5", b" 5 ", b"", b"f" * 17, b"5;x=y", b"5;" + b"x" * 9_000)


@st.composite
def trailers(draw: Draw) -> Stream:
    """A body in chunks with a wrong size, extension or end, and any trailers."""
    path = pick(draw, ("/live", TRANSCRIPTIONS, LISTEN))
    lines = [f"POST {path} HTTP/1.1".encode(), b"Host: x", b"Authorization: Bearer " + KEY]
    lines += [b"Transfer-Encoding: " + pick(draw, (b"chunked", b"chunked", b"gzip, chunked"))]
    lines += [_header(draw) for _ in v.some(draw, 1)]
    body = b"".join(pick(draw, _CHUNK_SIZES) + b"\r\n12345\r\n" for _ in v.some(draw, 4))
    body += pick(draw, (b"0\r\n", b"0\r\n", b"00000\r\n", b"0;x=y\r\n", b""))
    body += b"\r\n".join(_header(draw) for _ in v.some(draw, 20)) * pick(draw, (1, 1, 30))
    body += pick(draw, (b"\r\n\r\n", b"\r\n", b"\n\n", b""))
    if chance(draw, 20):
        body = v.wrong(draw, body)
    return Stream("http", (b"\r\n".join((*lines, b"Connection: close", b"", b"")), body or b"\r\n"))


_OFFERS = (
    *(b"h2c", b"websocket", b"h2c, websocket", b"TLS/1.0", b"websocket\r\nUpgrade: h2c", b""),
    b"x" * 9_000,
)
_CONNECTIONS = (b"Upgrade, HTTP2-Settings", b"upgrade", b"close, upgrade", b"keep-alive", b"x, ,")


@st.composite
def offers(draw: Draw) -> Stream:
    """Requests that offer other protocols, with bodies of any framing, and requests in them."""
    requests = []
    for _ in range(draw(st.integers(1, 3))):
        head = pick(draw, (b"POST", b"GET", b"CONNECT", b"HEAD"))
        head += b" " + pick(draw, ("/live", TRANSCRIPTIONS, STREAM, "*", "x:1")).encode()
        lines = [head + pick(draw, (b" HTTP/1.1", b" HTTP/1.1", b" HTTP/1.0"))]
        lines += [b"Host: x", b"Authorization: Bearer " + KEY]
        lines += [b"Upgrade: " + pick(draw, _OFFERS), b"Connection: " + pick(draw, _CONNECTIONS)]
        body = pick(draw, (b"", b"12345", b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n"))
        framing = pick(draw, (b"Content-Length: %d" % len(body), *_BODIES, b"Expect: 100-continue"))
        lines += [framing, *(_header(draw) for _ in v.some(draw, 1))]
        requests.append(b"\r\n".join((*lines, b"", body)))
    data = b"".join(requests)
    at = draw(st.integers(1, len(data) - 1))
    return Stream("http", (data[:at], data[at:]))


_HOSTS = (
    *("localhost", "127.0.0.1", "[::1]", "auricle", "attacker.example", "127.1", "0", "[::1", "]"),
    *("localhost:0", "localhost:99999", "a:b:c", "x@localhost", "localhost.", ".", "*", "", " "),
    *(
        "xn--x",
        "LOCALHOST",
        "%31",
        "a" * 300,
        "127.0.0.1.attacker.example",
        "0x7f.1",
        "[fe80::1%1]",
    ),
)


@st.composite
def hosts(draw: Draw) -> Stream:
    """A request or a handshake with any number of Host headers, and any origin."""
    path = pick(draw, ("/live", "/v1/models", STREAM, REALTIME))
    lines = [line for line in handshake(path).split(b"\r\n")[:-2] if not line.startswith(b"Host:")]
    if path not in (STREAM, REALTIME):
        lines = [lines[0], b"Connection: close"]
    for _ in range(pick(draw, (1, 1, 1, 0, 2))):
        name = pick(draw, _HOSTS).encode() if chance(draw, 80) else draw(v.noise(30))
        lines.append(b"Host: " + name.translate(None, b"\r\n\0"))
    if chance(draw, 40):
        lines.append(b"Origin: " + pick(draw, ("http://", "", "null")).encode()
                     + pick(draw, _HOSTS).encode())  # fmt: skip
    return Stream("http", (b"\r\n".join((*lines, b"Authorization: Bearer " + KEY, b"", b"")),))


@st.composite
def inner_requests(draw: Draw) -> Stream:
    """A request to an HTTP server inside the graph: a system port, or the launcher's socket.

    The launcher must not carry it out: it never contains a valid number of replicas.
    """
    which, what = draw(st.floats(0, 0.999)), draw(st.integers(0, 5))
    if what == 0:
        return Stream("servers", (draw(v.noise(400)) + b"\r\n\r\n",), which)
    wrong = pick(draw, (-1, 10**6, 1.5, "1", None, True, [], {}, 2**70, "é" * 3_000))
    body = draw(v.json_of(st.sampled_from(({"replicas": wrong}, [wrong])) | v.anything))
    length = len(body) if chance(draw, 90) else pick(draw, (-1, 2**40, 0))
    path = pick(draw, _INNER_PATHS) + pick(draw, ("", "?" + quote(draw(v.short_texts))))
    head = pick(draw, _METHODS[:6]) + b" " + path.encode() + b" HTTP/1.1\r\nHost: x\r\n"
    head += b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % length
    # A changed body could have a valid number.
    return Stream("servers", (v.wrong(draw, head) if what == 1 else head + body,), which)


# Multipart forms.
_CONTENT_TYPES = (
    *(b"multipart/form-data", b"multipart/form-data; boundary=", b"application/json", b""),
    *(b"multipart/form-data; boundary=\xff", b"multipart/mixed; boundary=x"),
    b"multipart/form-data; boundary=" + b"b" * 5_000,
)
_AFTER_NAMES = (
    *(b"", b"", b"", b"", b'; filename="x"', b'; filename="\xff\x00"', b"; filename*=utf-8''x"),
    *(b"; filename*=UTF-8''%ff%00%22", b"; filename*='" + b"%" * 3_000, b"; filename*0=x"),
    *(b"\r\nContent-Transfer-Encoding: binary", b"\r\nContent-Transfer-Encoding: base64"),
    *(b"\r\nContent-Type: text/plain; charset=x", b"\r\nContent-Type: \xff"),
    b"\r\nContent-Type: " + b"a" * 9_000,
)
_AUDIO_TYPES = (
    *(b"application/octet-stream", b"audio/wav", b"application/json", b"multipart/form-data", b""),
    *(b"APPLICATION/JSON ; x", b"application/json\xff", b"text/" + b"x" * 3_000),
)


def _part(boundary: bytes, name: str, value: bytes, more: bytes = b"") -> bytes:
    disposition = f'Content-Disposition: form-data; name="{name}"'.encode() + more
    return b"--" + boundary + b"\r\n" + disposition + b"\r\n\r\n" + value + b"\r\n"


def upload(data: bytes, name: str = "x.wav", **fields: str) -> Post:
    """A valid transcription of a file."""
    boundary = b"fEd9c0"
    parts = [_part(boundary, name, value.encode()) for name, value in fields.items()]
    parts.append(_part(boundary, "file", data, b'; filename="%s"' % name.encode()))
    body = b"".join((*parts, b"--fEd9c0--\r\n"))
    return Post(TRANSCRIPTIONS, b"multipart/form-data; boundary=" + boundary, body)


@st.composite
def forms(draw: Draw, path: str) -> Post:
    """A form for a transcription or a translation, with wrong fields or bytes."""
    table = v.of_type(TranslationForm if path == TRANSLATED else TranscriptionForm)
    given = draw(v.bent(table) if draw(st.booleans()) else table)
    boundary, parts = pick(draw, (b"x", b"----b0undary", b"a" * 69)), []
    for name, value in (given if isinstance(given, dict) else {"x": given}).items():
        shown = [(f"{name}[]" if name in LISTS else name, value)]
        if isinstance(value, dict):
            shown = [(f"{name}[{inner}]", one) for inner, one in value.items()]
        elif isinstance(value, list):
            shown = [(shown[0][0], one) for one in value]
        for key, one in shown:
            text = (one if isinstance(one, str) else str(one).lower()).encode(errors="replace")
            parts.append(_part(boundary, key, text, pick(draw, _AFTER_NAMES)))
    parts *= pick(draw, (1, 1, 1, 1, 40))
    if chance(draw, 60):
        parts.append(_part(boundary, "file", draw(v.noise(200)), b'; filename="x.wav"'))
    body, what = b"".join(parts) + b"--" + boundary + b"--\r\n", draw(st.integers(0, 9))
    kind = b"multipart/form-data; boundary=" + boundary
    if what < 3:
        body = v.wrong(draw, body)
    elif what == 3:
        body = body[: draw(st.integers(0, len(body)))]
    elif what == 4:
        kind = pick(draw, _CONTENT_TYPES)
    elif what == 5:
        body = draw(v.json_of(v.anything))
    elif what == 6:
        body = draw(v.noise(300)) * pick(draw, (1, 1, 60)) + b"\r\n" + body + draw(v.noise(300))
    return Post(path, kind, body)


@st.composite
def recordings(draw: Draw) -> Post:
    """A recording for Deepgram's protocol, or the address of one."""
    query = draw(queries(v.of_type(DeepgramOptions), wrong=chance(draw, 60)))
    address = v.json_of(st.fixed_dictionaries({"url": v.texts}))
    return Post(f"{LISTEN}?{query}", pick(draw, _AUDIO_TYPES), draw(address | v.noise(300)))


leaving = st.one_of(
    st.builds(Leaving, body=st.floats(0, 1), abrupt=st.booleans()),
    st.builds(Leaving, seconds=st.sampled_from((0.0, 0.01, 0.05, 0.2, 0.5)), abrupt=st.booleans()),
    st.builds(Leaving, events=st.integers(1, 7), abrupt=st.booleans()),
)

# Frames of a WebSocket.
_FIRST = {STREAM: b'{"type": "start", "sample_rate": 16000}',
          REALTIME: b'{"type": "session.update", "session": {}}'}  # fmt: skip
_PONG = 10
_NOT_UTF8 = (b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2")
_LENGTHS = (126, 65_536, 2**20 + 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
_CODES = (0, 999, 1000, 1004, 1005, 1006, 1015, 2999, 5000, 65_535)


@cache
def _bomb(fill: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return (packer.compress(fill * (1 << 22)) + packer.flush(zlib.Z_SYNC_FLUSH))[:-4]


def _bits(data: bytes, first: int) -> bytes:
    """A frame with other bits in its first byte: reserved ones are 0x70, the opcode 0x0F."""
    return bytes([data[0] ^ first]) + data[1:]


@st.composite
def frames(draw: Draw) -> Session:
    """Wrong frames after a valid handshake, some of them after a valid first message."""
    path, kind = pick(draw, (STREAM, REALTIME)), pick(draw, (TEXT, BINARY))
    good, control = _FIRST[path], pick(draw, (wire.CLOSE, PING, _PONG))
    text, parts = frame(TEXT, good), [good[at : at + 3] for at in range(0, len(good), 3)]
    pieces = [frame(0 if number else TEXT, part, fin=number == len(parts) - 1)
              for number, part in enumerate(parts)]  # fmt: skip
    with_pings = [one + frame(PING, b"p" * draw(st.integers(0, 125))) for one in pieces]
    long = bytes([0x80 | kind, 0xFF]) + struct.pack(">Q", pick(draw, _LENGTHS))
    data = pick(draw, (
        lambda: long + bytes(4) + b"abc",
        lambda: bytes([0x81, 0xFE, 0, 20]) + bytes(4) + good[:20],  # a length in too many bytes
        lambda: bytes([0x81, len(good)]) + good,  # without a mask
        lambda: _bits(text, draw(st.integers(1, 7)) << 4),
        lambda: _bits(text, draw(st.integers(1, 15))),
        lambda: b"".join(pick(draw, (with_pings, draw(st.permutations(pieces))))),
        lambda: frame(BINARY, b"", fin=False) + frame(0, b"", fin=False) * 500,
        lambda: frame(control, b"x" * pick(draw, (0, 1, 125, 126, 4_000)), fin=chance(draw, 70)),
        lambda: frame(wire.CLOSE, struct.pack(">H", pick(draw, _CODES)) + draw(v.noise(60))),
        lambda: frame(pick(draw, (PING, _PONG)), b"x") * pick(draw, (100, 2_000)),
        lambda: frame(TEXT, good[:10] + pick(draw, _NOT_UTF8) + good[10:]),
        lambda: frame(kind, bytes(pick(draw, (2**20 - 1, 2**20, 2**20 + 1, 2**21)))),
        lambda: _bits(frame(kind, _bomb(pick(draw, (b"\0", b" ", b"[")))), 0x40),
        lambda: _bits(frame(TEXT, draw(v.noise(500))), 0x40),
        lambda: draw(v.noise(2_000)),
    ))()  # fmt: skip
    if chance(draw, 10):
        data = v.wrong(draw, data[:70_000])
    first = text if chance(draw, 40) else b""
    extensions = pick(draw, ("", "permessage-deflate"))
    return Session(path, ((RAW, first + data),), extensions=extensions)
