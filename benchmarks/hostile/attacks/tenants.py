"""Attacks of one tenant on another one: places of sessions, the transcript bus, the disk."""

from __future__ import annotations

import asyncio
import time
import uuid
from contextlib import AsyncExitStack
from pathlib import Path

import httpx

from auricle.audio.pcm import to_int16
from auricle_testing import recordings
from auricle_testing.services import stored_messages
from auricle_testing.wire import TEXT, frame
from benchmarks.clients.telephones import twilio_call
from benchmarks.hostile.attackers.ports import head
from benchmarks.hostile.attackers.sockets import opened
from benchmarks.hostile.attackers.wire import MOST_JOBS, Hung, Target, Wire
from benchmarks.hostile.attacks import newcomer
from benchmarks.hostile.attacks.newcomer import metric, untranscribed
from benchmarks.hostile.inputs import Post
from benchmarks.hostile.oracle import Held
from benchmarks.hostile.strategies.http import JOBS, TRANSCRIPTIONS, upload
from benchmarks.hostile.strategies.messages import LISTEN

_KEEP_ALIVE = frame(TEXT, b'{"type": "KeepAlive"}')
_SESSIONS = 64
_KEEP_ALIVE_SECONDS, _AGAIN_SECONDS = 3.0, 1.0
_UPLOADS, _UPLOAD_BYTES = 12, 64 << 20
_MIB = 1 << 20
_PIECE = bytes(_MIB)
_BUS_SECONDS = 20.0
_JOB_SECONDS = 60.0


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


async def jobs_of_others(target: Target, _scale: float) -> Held:
    """One tenant fills the folder of jobs with its own, and tries the id of another one's.

    The other one's job is accepted, done, and only its own.
    """
    keys = (target.key, target.newcomer)
    async with (
        _client(target.url, keys[0]) as attacker,
        _client(target.url, keys[1]) as other,
    ):
        sent = 0
        while (await _submitted(attacker, target.model, b"RIFF")).status_code == 202:
            sent += 1
            if sent > MOST_JOBS:
                return Held(False, f"one tenant could store {sent} jobs", sent)
        audio = await asyncio.to_thread(Path(target.audio).read_bytes)
        accepted = await _submitted(other, target.model, audio)
        if accepted.status_code != 202:
            return Held(False, f"the other tenant's job was refused: {accepted.text}", sent)
        job = accepted.headers["location"]
        tried = [await attacker.request(*one) for one in _on_a_job(job)]
        found = [one.status_code for one in tried if one.status_code not in (400, 404, 405)]
        listed = (await attacker.get(f"{JOBS}?limit=100")).json()["data"]
        stolen = any(job.endswith(one["id"]) for one in listed)
        result = await _result(other, job)
        for one in listed:
            await attacker.delete(f"{JOBS}/{one['id']}")
        if found or stolen or result.status_code != 200:
            detail = f"answers {found}, listed: {stolen}, the other's result: {result.text}"
            return Held(False, detail, sent)
    return Held(True, f"{sent} jobs of one tenant; another one's was done, and only its own", sent)


def _client(url: str, key: str) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.AsyncClient(base_url=url, timeout=30.0, headers=headers)


async def _submitted(client: httpx.AsyncClient, model: str, audio: bytes) -> httpx.Response:
    return await client.post(JOBS, data={"model": model}, files={"file": ("x.wav", audio)})


def _on_a_job(job: str) -> list[tuple[str, str]]:
    return [
        *(("GET", job), ("GET", f"{job}/result"), ("DELETE", job), ("PUT", job), ("POST", job)),
        *(("GET", f"{job}/../{job[-8:]}"), ("GET", f"{job}%00"), ("GET", f"{job.upper()}/result")),
    ]


async def _result(client: httpx.AsyncClient, job: str) -> httpx.Response:
    """Return the job's answer once it has one, or the last refusal."""
    end = time.monotonic() + _JOB_SECONDS
    while True:
        answer = await client.get(f"{job}/result")
        if answer.status_code != 409 or time.monotonic() > end:
            return answer
        await asyncio.sleep(_AGAIN_SECONDS)
