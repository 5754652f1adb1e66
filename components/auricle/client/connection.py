"""Connections to servers: WebSockets for live sessions, and calls by HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

import msgspec
import websockets

from auricle.client.errors import ServerUnreachable, refusal
from auricle.core.errors import AuricleError, BadRequest, DeadlineExceeded

_SCHEMES = {"http": ("http", "ws"), "https": ("https", "wss")}
_SCHEMES |= {"ws": _SCHEMES["http"], "wss": _SCHEMES["https"]}


def http_address(url: str, path: str) -> str:
    """Return the HTTP address of a path. Raises BadRequest for an invalid `url`."""
    (http, _), rest = _split(url)
    return f"{http}://{rest}{path}"


def socket_address(url: str, path: str) -> str:
    """Return the WebSocket address of a path. Raises BadRequest for an invalid `url`."""
    (_, socket), rest = _split(url)
    return f"{socket}://{rest}{path}"


def _split(url: str) -> tuple[tuple[str, str], str]:
    begin, found, rest = url.partition("://")
    if not found or not rest or begin.lower() not in _SCHEMES:
        raise BadRequest(
            f"{url} is not the address of a server; "
            "it must begin with http://, https://, ws:// or wss://"
        )
    return _SCHEMES[begin.lower()], rest.rstrip("/")


_OPEN_SECONDS = 10.0
_PING_SECONDS, _PONG_SECONDS = 20.0, 20.0
_CLOSE_SECONDS = 2.0
# Bytes that may wait to be sent. While sending waits for room, the library neither sends pings nor
# ends a close in time. A live client would find a lost host by TCP only, after a quarter of an
# hour; its audio, in real time, never fills so much.
_WAITING, _WAITING_LIVE = 1 << 15, 1 << 26
_PATH = "/v1/audio/stream"


async def connect(
    url: str, api_key: str | None, *, live: bool, resumes: bool
) -> websockets.ClientConnection:
    """Connect to the server at `url`.

    A `live` client detects a lost server by missing pongs; other clients may receive pongs late.
    `resumes` marks a session that was admitted before. Raises BadRequest for an invalid address,
    ServerUnreachable if the server does not answer, Overloaded or RateLimited if it is full, and
    another AuricleError if it rejects the session.
    """
    address = socket_address(url, _PATH + ("?resume=true" if resumes else ""))
    try:
        return await websockets.connect(
            address,
            additional_headers={} if api_key is None else {"Authorization": f"Bearer {api_key}"},
            open_timeout=_OPEN_SECONDS,
            close_timeout=_CLOSE_SECONDS,
            max_size=None,
            # Under backpressure the server reads a ping only after our audio. Audio in real time
            # causes no backpressure.
            ping_interval=_PING_SECONDS,
            ping_timeout=_PONG_SECONDS if live else None,
            write_limit=_WAITING_LIVE if live else _WAITING,
        )
    except websockets.InvalidStatus as error:
        response = error.response
        after = response.headers.get("Retry-After")
        raise refusal(url, response.status_code, bytes(response.body or b""), after) from None
    except (OSError, TimeoutError, websockets.WebSocketException) as error:
        raise ServerUnreachable(f"no auricle server at {url}: {error}") from None


if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
_CONNECT_SECONDS = 10.0
_SEND_SECONDS = 60.0  # for each piece of an upload
_LIST_SECONDS = 30.0


class Capabilities(msgspec.Struct, frozen=True):
    """Optional features of a session: times of words, speakers, and translations.

    `translate` has the target languages, as ISO 639-1 codes: empty if any may be requested or the
    server has no list, None without a translator. `vocabulary` is the number of words of a model
    with a small vocabulary, None for ordinary speech. `languages` has the model's languages, as ISO
    639-1 codes, empty if the server has no list.
    """

    words: bool = False
    speakers: bool = False
    translate: tuple[str, ...] | None = None
    vocabulary: int | None = None
    languages: tuple[str, ...] = ()


class Model(msgspec.Struct, frozen=True):
    id: str
    capabilities: Capabilities = Capabilities()  # an older server omits them


class _Models(msgspec.Struct, frozen=True):
    data: tuple[Model, ...]


@asynccontextmanager
async def http_client(api_key: str | None, seconds: float) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client for calls that take at most `seconds`."""
    # The import is slow, and live sessions do not need it.
    import httpx

    headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
    limits = httpx.Timeout(seconds, connect=_CONNECT_SECONDS, write=_SEND_SECONDS, pool=None)
    async with httpx.AsyncClient(headers=headers, timeout=limits) as client:
        yield client


async def first_answer(
    client: httpx.AsyncClient,
    urls: Sequence[str],
    call: Callable[[httpx.AsyncClient, str], Awaitable[T]],
) -> T:
    """Return the result of `call` at the first server that answers.

    Raises DeadlineExceeded if it takes longer than the client's limit, ServerUnreachable if no
    server answers, and the errors of `call`.
    """
    import httpx

    for left in reversed(range(len(urls))):
        url = urls[len(urls) - 1 - left]
        try:
            return await call(client, url)
        except httpx.ReadTimeout:
            raise DeadlineExceeded(
                f"the server at {url} took longer than {client.timeout.read:g} s"
            ) from None
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            if not left:
                raise ServerUnreachable(f"no auricle server at {url}: {error}") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise AuricleError(f"the server at {url} did not answer: {error!r}") from None
    raise AssertionError("urls is empty")


async def capabilities(urls: Sequence[str], api_key: str | None) -> Capabilities:
    """Return the servers' optional features. Raises as `Client.capabilities`."""
    async with http_client(api_key, _LIST_SECONDS) as client:
        return (await first_answer(client, urls, served_model)).capabilities


async def served_model(client: httpx.AsyncClient, url: str) -> Model:
    """Return the served model. Raises AuricleError."""
    found = decoded(url, await client.get(http_address(url, "/v1/models")), _Models)
    if not found.data:
        raise AuricleError(f"the server at {url} serves no model")
    return found.data[0]


def decoded(url: str, response: httpx.Response, kind: type[T]) -> T:
    """Return the body of a response. Raises the error in it."""
    if response.is_success:
        try:
            return msgspec.json.decode(response.content, type=kind)
        except msgspec.DecodeError as error:
            raise AuricleError(f"the server at {url} is not auricle: {error}") from None
    raise refusal(url, response.status_code, response.content, response.headers.get("retry-after"))
