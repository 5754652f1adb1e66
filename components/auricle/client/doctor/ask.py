"""Asks a frontend for a diagnosis."""

from __future__ import annotations

import asyncio
import time
from urllib.parse import urlsplit

import httpx
import msgspec

from auricle.errors import AuricleError, BadRequest
from auricle.messages.diagnosis import Diagnosis
from auricle.quoting import escaped, quoted

# A diagnosis takes the frontend up to a minute.
_ANSWER_SECONDS = 90.0
_CONNECT_SECONDS = 10.0
# How long others' diagnoses are waited for.
_PATIENCE_SECONDS = 60.0
_MAX_BYTES = 16 << 20


async def ask(url: str, api_key: str | None) -> Diagnosis:
    """Return the diagnosis of the frontend at `url`.

    Waits for up to a minute while it makes one for somebody else. Raises BadRequest if `url` is
    none, AuricleError if there is no answer or it is not a diagnosis.
    """
    base = _checked(url)
    if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
        raise BadRequest("that is no API key: it has line breaks or characters beyond ASCII")
    headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
    timeout = httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS)
    patient_until = time.monotonic() + _PATIENCE_SECONDS
    async with httpx.AsyncClient(headers=headers, timeout=timeout) as client:
        while True:
            status, body, wait = await _once(client, f"{base}/v1/diagnosis")
            if status != 429 or time.monotonic() + wait > patient_until:
                return _diagnosis(status, body)
            await asyncio.sleep(wait)


async def _once(client: httpx.AsyncClient, address: str) -> tuple[int, bytes, float]:
    """Return status, body, and after how many seconds to ask again."""
    try:
        async with asyncio.timeout(_ANSWER_SECONDS), client.stream("GET", address) as answer:
            body = bytearray()
            async for part in answer.aiter_bytes():
                body += part
                if len(body) > _MAX_BYTES:
                    raise AuricleError(f"the answer has more than {_MAX_BYTES >> 20} MiB")
            after = answer.headers.get("retry-after", "")
            wait = float(after) if after.isdecimal() and len(after) < 4 else 1.0
            return answer.status_code, bytes(body), max(wait, 1.0)
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
        said = str(error) or type(error).__name__
        raise AuricleError(f"no answer from {address}: {said}") from None


def _diagnosis(status: int, body: bytes) -> Diagnosis:
    if status == 404:
        raise AuricleError("there is no /v1/diagnosis: not auricle, or an older version of it")
    if status != 200:
        raise AuricleError(f"the server refused with {status}: {_message(body)}")
    try:
        return msgspec.json.decode(body, type=Diagnosis)
    except msgspec.DecodeError as error:
        raise AuricleError(f"the answer is not a diagnosis of this version: {error}") from None


def _message(body: bytes) -> str:
    try:
        return str(msgspec.json.decode(body)["error"]["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return escaped(body[:200].decode(errors="replace"), 200)


def _checked(url: str) -> str:
    example = "a server's address is like http://127.0.0.1:8080"
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise BadRequest(f"{quoted(url)} is no address; {example}")
    return url.rstrip("/")
