"""Slow uploads are aborted, and take no other client's slot, over a real HTTP server."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx
import pytest
from prometheus_client import CollectorRegistry

from auricle.config.settings import FrontendSettings
from auricle.frontend.frontend import Frontend
from auricle.frontend.metrics import FrontendMetrics
from auricle.frontend.protocols.transcriptions.endpoint import TranscriptionRequests
from auricle.frontend.recordings.requests import RecordingRequests
from auricle.frontend.recordings.transcriber import RecordingTranscriber
from auricle.frontend.transport.access.gate import Access
from auricle.frontend.transport.access.keys import KeyRing, new_key
from auricle.frontend.transport.admission import SessionAdmission
from tests.fakes.doors import Door, event_loop_policy
from tests.fakes.transcriber import Scripted
from tests.waiting import until

pytestmark = pytest.mark.unit
__all__ = ["event_loop_policy"]
BEGIN = b'--x\r\ncontent-disposition: form-data; name="file"; filename="x.wav"\r\n\r\nRIFF'


class Slow:
    """An upload that has begun, and sends no more by itself."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def answer(self) -> tuple[int, dict[str, Any]]:
        head = await self._reader.readuntil(b"\r\n\r\n")
        body = json.loads(await self._reader.readuntil(b"}}"))
        return int(head.split()[1]), body["error"]


class Uploads:
    """The endpoint under test."""

    def __init__(self, keys: KeyRing | None = None, **settings: Any) -> None:
        self.registry = CollectorRegistry()
        self._settings = FrontendSettings(**settings)
        metrics, unused = FrontendMetrics(self.registry, self._settings), cast(Any, None)
        frontend = Frontend(
            *(
                self._settings,
                ("demo",),
                unused,
                SessionAdmission(unused, 1),
                unused,
                unused,
                metrics,
            )
        )
        self.transcriber = Scripted()
        requests = RecordingRequests(
            *(frontend, Access(keys or KeyRing(None))),
            cast(RecordingTranscriber, self.transcriber),
        )
        self._app = TranscriptionRequests(requests)
        self.door = Door()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        proxies = {"proxy_headers": True, "forwarded_allow_ips": ["127.0.0.1"]}
        async with self.door.serving(self._app, **proxies):
            yield

    async def post(self, address: str, name: str = "x.wav", key: str = "none") -> httpx.Response:
        async with httpx.AsyncClient(timeout=60) as client:
            return await client.post(
                f"http://127.0.0.1:{self.door.port}/",
                data={"model": "demo"},
                files={"file": (name, b"RIFF")},
                headers={"X-Forwarded-For": address, "Authorization": f"Bearer {key}"},
            )

    async def begin(self, address: str, key: str = "none") -> Slow:
        """Begin an upload; returns when it is in progress or was rejected."""
        before = sum(self.count().values())
        slow = Slow(*await self.door.connect())
        head = [
            "POST / HTTP/1.1",
            "host: x",
            f"x-forwarded-for: {address}",
            f"authorization: Bearer {key}",
            "content-type: multipart/form-data; boundary=x",
            "content-length: 100000",
        ]
        slow.writer.write("\r\n".join([*head, "", ""]).encode() + BEGIN)
        await until(lambda: sum(self.count().values()) != before)
        return slow

    def number(self, metric: str) -> float:
        return self.registry.get_sample_value(metric) or 0.0

    def count(self) -> Counter[str]:
        """Uploads in progress, and ended requests by result."""
        found: Counter[str] = Counter()
        for metric in self.registry.collect():
            for sample in metric.samples:
                if sample.name == "auricle_frontend_uploads":
                    found["in progress"] = int(sample.value)
                if sample.name == "auricle_frontend_recordings_ended_total":
                    found[sample.labels["result"]] = int(sample.value)
        return found


async def test_an_upload_that_stalls_is_answered_with_408() -> None:
    uploads = Uploads(upload_timeout_seconds=0.1)
    async with uploads.serving():
        slow = await uploads.begin("10.0.0.1")
        status, error = await slow.answer()
        assert (status, error["code"], error["type"]) == (408, "too_slow", "invalid_request_error")
        assert error["message"] == "the next part of the upload took longer than 0.1 s"
        slow.writer.close()
    assert uploads.count() == {"too_slow": 1, "in progress": 0}


async def test_an_upload_of_a_byte_now_and_then_is_answered_with_408() -> None:
    uploads = Uploads(upload_window_seconds=0.2)
    async with uploads.serving():
        slow = await uploads.begin("10.0.0.1")
        answering = asyncio.create_task(slow.answer())
        while not answering.done():
            slow.writer.write(b"\x00")
            await asyncio.wait([answering], timeout=0.05)  # the client's pace
        status, error = await answering
        assert status == 408
        assert error["message"].startswith("the upload is slower than 1000 bytes a second")
        slow.writer.close()


async def test_an_upload_has_a_deadline_in_all() -> None:
    uploads = Uploads(min_upload_bytes_per_second=0, upload_deadline_seconds=0.2)
    async with uploads.serving():
        slow = await uploads.begin("10.0.0.1")
        answering = asyncio.create_task(slow.answer())
        while not answering.done():
            slow.writer.write(b"\x00" * 100)
            await asyncio.wait([answering], timeout=0.02)  # the client's pace
        status, error = await answering
        assert (status, error["message"]) == (408, "the upload took longer than 0.2 s")
        slow.writer.close()


async def test_slow_uploads_take_no_place_of_complete_ones() -> None:
    uploads = Uploads(max_recordings=1)
    async with uploads.serving():
        held = [await uploads.begin("10.0.0.1") for _ in range(5)]
        assert (await uploads.post("10.0.0.1")).status_code == 200
        for slow in held:
            slow.writer.close()


@pytest.mark.parametrize(
    ("number", "answer"),
    [(errno.ENOSPC, (507, "storage_full")), (errno.EMFILE, (503, "overloaded"))],
)
async def test_a_full_disk_costs_the_upload_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, number: int, answer: tuple[int, str]
) -> None:
    uploads = Uploads()
    async with uploads.serving():

        def fail(_file: object) -> None:
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as full:
            full.setattr("tempfile.SpooledTemporaryFile.rollover", fail)
            refused = await uploads.post("10.0.0.1")
        assert (refused.status_code, refused.json()["error"]["code"]) == answer
        assert int(refused.headers["Retry-After"]) > 0
        assert uploads.count()["in progress"] == 0
        assert (await uploads.post("10.0.0.1")).status_code == 200


async def test_there_are_so_many_recordings_in_work() -> None:
    uploads = Uploads(max_recordings=1)
    async with uploads.serving():
        working = asyncio.create_task(uploads.post("10.0.0.1", "endless.wav"))
        await uploads.transcriber.asked.wait()
        answer = await uploads.post("10.0.0.2")
        assert answer.status_code == 503
        assert answer.json()["error"]["message"] == "1 recordings are in progress; try again"
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def test_all_uploads_being_one_clients_slow_ones_keeps_nobody_out() -> None:
    uploads = Uploads(max_uploads=16, max_uploads_per_address=0)
    async with uploads.serving():
        held = [await uploads.begin("10.0.0.1") for _ in range(16)]
        refused = await uploads.begin("10.0.0.1")
        assert (await refused.answer())[0] == 503
        for number in range(3):
            assert (await uploads.post(f"10.0.0.{number + 2}")).status_code == 200
        # One of them gave up its slot; more were not needed.
        status, error = await held[-1].answer()
        assert (status, error["code"]) == (503, "overloaded")
        assert "in favour of a client with fewer" in error["message"]
        assert uploads.count()["in progress"] == 15
        for slow in (*held, refused):
            slow.writer.close()


async def test_uploads_that_fill_the_disk_give_way_to_another_clients() -> None:
    uploads = Uploads(max_upload_bytes=200_000, max_stored_upload_bytes=400_000)
    async with uploads.serving():
        held = []
        for address in ("10.0.0.1", "10.0.0.2"):
            for _ in range(2):
                held.append(await uploads.begin(address))
                held[-1].writer.write(bytes(99_900))
        await until(lambda: uploads.number("auricle_frontend_stored_upload_bytes") > 399_000)
        assert (await uploads.post("10.0.0.1")).status_code == 429  # it has half
        assert (await uploads.post("10.0.0.3")).status_code == 200
        status, error = await held[0].answer()
        assert (status, error["code"]) == (503, "overloaded")
        for slow in held:
            slow.writer.close()
    assert uploads.number("auricle_frontend_stored_upload_bytes") == 0


async def test_one_address_may_have_so_many_uploads_in_progress() -> None:
    uploads = Uploads(max_uploads_per_address=2)
    async with uploads.serving():
        held = [await uploads.begin("10.0.0.1") for _ in range(2)]
        answer = await uploads.post("10.0.0.1")
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "5"
        assert answer.json()["error"]["message"] == "you have 2 uploads open; end one first"
        assert (await uploads.post("10.0.0.2")).status_code == 200
        for slow in held:
            slow.writer.close()


async def test_one_key_may_have_so_many_uploads_in_progress() -> None:
    made = [new_key(name) for name in ("a", "b")]
    uploads = Uploads(KeyRing([key for _, key in made]), max_uploads_per_key=2)
    async with uploads.serving():
        held = [await uploads.begin(f"10.0.0.{n}", made[0][0]) for n in range(2)]
        assert (await uploads.post("10.0.0.9", key=made[0][0])).status_code == 429
        assert (await uploads.post("10.0.0.9", key=made[1][0])).status_code == 200
        for slow in held:
            slow.writer.close()
