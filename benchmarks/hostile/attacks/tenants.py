"""Attacks of one tenant on another one: places of sessions, the transcript bus, the disk."""

from __future__ import annotations

import asyncio
import time
import uuid
from contextlib import AsyncExitStack

from auricle.audio.pcm import to_int16
from auricle_testing import recordings
from auricle_testing.services import stored_messages
from auricle_testing.wire import TEXT, frame
from benchmarks.clients.telephones import twilio_call
from benchmarks.hostile.attackers.ports import head
from benchmarks.hostile.attackers.sockets import opened
from benchmarks.hostile.attackers.wire import Hung, Target, Wire
from benchmarks.hostile.attacks import newcomer
from benchmarks.hostile.attacks.newcomer import metric, untranscribed
from benchmarks.hostile.inputs import Post
from benchmarks.hostile.oracle import Held
from benchmarks.hostile.strategies.http import TRANSCRIPTIONS, upload
from benchmarks.hostile.strategies.messages import LISTEN

_KEEP_ALIVE = frame(TEXT, b'{"type": "KeepAlive"}')
_SESSIONS = 64
_KEEP_ALIVE_SECONDS, _AGAIN_SECONDS = 3.0, 1.0
_UPLOADS, _UPLOAD_BYTES = 12, 64 << 20
_MIB = 1 << 20
_PIECE = bytes(_MIB)
_BUS_SECONDS = 20.0


async def silent_sessions(target: Target, scale: float) -> Held:
    """As many live sessions of one tenant as it gets, kept without audio."""

    async def held() -> None:
        while True:
            wire = await opened(target, f"{LISTEN}?encoding=linear16&sample_rate=16000")
            if not isinstance(wire, Wire):
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            try:
                while not wire.closed:
                    await wire.send(_KEEP_ALIVE)
                    try:
                        if not await wire.receive(_KEEP_ALIVE_SECONDS):
                            break
                    except Hung:  # a silent session receives nothing
                        pass
            finally:
                wire.close()

    sessions = asyncio.gather(*(held() for _ in range(_SESSIONS)))
    await asyncio.sleep(3.0)  # until it has as many as it gets
    try:
        return await newcomer.admitted(target, 5 + 40 * scale, cases=_SESSIONS)
    finally:
        sessions.cancel()
        await asyncio.gather(sessions, return_exceptions=True)


async def equal_calls(target: Target, _scale: float) -> Held:
    """Two tenants' telephone calls with equal ids at once: the bus has the text of both."""
    pcm, call = to_int16(recordings.samples("hello")), f"CA{uuid.uuid4().hex}"
    url = target.url.replace("http", "ws", 1)
    keys = (target.key, target.newcomer)
    await asyncio.gather(*(twilio_call(url, pcm, call, key) for key in keys))
    texts: dict[str, str] = {}
    end = time.monotonic() + _BUS_SECONDS
    while len(texts) < len(keys) and time.monotonic() < end:
        await asyncio.sleep(_AGAIN_SECONDS)
        for message in await stored_messages(target.nats):
            if message["session"] == call and message["type"] == "final":
                texts[message["tenant"]] = message["text"]
    held = len(texts) == len(keys) and all(texts.values())
    return Held(held, f"the bus has {texts}", len(keys))


async def stored_uploads(target: Target, _scale: float) -> Held:
    """Uploads of one tenant that are not completed, of more bytes than it may store."""
    whole = upload(b"")
    begun = whole.body[: whole.body.index(b"\r\n\r\n") + 4]
    form = Post(TRANSCRIPTIONS, whole.content_type, begun)
    size = len(form.body) + _UPLOAD_BYTES + 1
    stored = 0.0

    async def watch() -> None:
        nonlocal stored
        while True:
            stored = max(stored, await metric(target, "auricle_frontend_stored_upload_bytes"))
            await asyncio.sleep(0.2)

    async with AsyncExitStack() as stack:

        async def one() -> None:
            wire = await Wire.open(target.place("http"))
            stack.callback(wire.close, abrupt=True)
            await wire.send(head(target, form, size) + form.body)
            for _ in range(_UPLOAD_BYTES // _MIB):
                if wire.closed:
                    break
                await wire.send(_PIECE)

        watching = asyncio.create_task(watch())
        try:
            uploads = asyncio.gather(*(one() for _ in range(_UPLOADS)))
            refused = await untranscribed(target)
            await uploads
            refused = refused or await untranscribed(target)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
    share = target.stored_bytes / 2
    if stored > share + 2 * len(form.body):
        refused = refused or f"{stored:g} bytes were stored, at most {share:g} may be"
    return Held(not refused, refused or f"{stored / _MIB:.0f} MiB were stored", _UPLOADS)
