"""A probe takes the path of a session's audio, and reports the point of failure."""

from __future__ import annotations

import asyncio

import pytest

from auricle.config.settings import ProcessorSettings
from auricle.core.errors import WindowsMissing, WorkerUnavailable
from auricle.processor import probe
from auricle.processor.pools import EncodePool, PdPool
from auricle.processor.probe import Prober, segment_need
from auricle.protocol.diagnosis import AskProbe
from auricle.protocol.recognition import DecodeRequest, EncodeRequest
from tests.fakes.workers import PROMPT, VIEW, ScriptedWorkers, counting

pytestmark = pytest.mark.unit


class Workers(ScriptedWorkers):
    """Workers of both pools; they record their requests, and fail requests for `failing`."""

    def __init__(self, failing: type | None = None, *, hanging: bool = False) -> None:
        super().__init__(counting)
        self.failing = failing
        self.hanging = hanging
        self.instances: list[int] = []

    async def call(self, message: object, reply: object, instance: int, seconds: float) -> object:
        self.instances.append(instance)
        if self.failing is not None and isinstance(message, self.failing):
            if self.hanging:
                await asyncio.Event().wait()
            if isinstance(message, DecodeRequest):
                raise WindowsMissing((message.windows[0].key,), "the read failed")
            raise WorkerUnavailable("gone")
        return await super().call(message, reply, instance, seconds)


def prober(workers: Workers) -> Prober:
    pools = EncodePool(workers, 60.0, 3), PdPool(workers, 60.0, 3)  # type: ignore[arg-type]
    return Prober(VIEW, "float32", *pools)


async def test_the_workers_that_are_named_do_it_with_audio_of_its_own() -> None:
    workers = Workers()
    one = prober(workers)
    made = [await one.probe(AskProbe(21, 31)) for _ in range(2)]
    assert workers.instances == [21, 31, 21, 31]
    assert all(not steps.failed and steps.mel_seconds > 0 for steps in made)
    first, second = (request.windows[0].key for request in workers.encodes)
    assert first != second
    decode = workers.decodes[0]
    assert decode.windows[0].key == first and decode.final
    assert decode.windows[0].length == VIEW.geometry.embeddings(100)


async def test_a_step_that_fails_is_named_and_not_repeated() -> None:
    encode = await prober(Workers(EncodeRequest)).probe(AskProbe(21, 31))
    assert (encode.failed, encode.fault) == ("encode", "unavailable")
    workers = Workers(DecodeRequest)
    decode = await prober(workers).probe(AskProbe(21, 31))
    assert (decode.failed, decode.fault) == ("decode", "windows_missing")
    assert workers.instances == [21, 31]


async def test_a_step_that_hangs_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_STEP_SECONDS", 1.0)  # the preceding encode has the same limit
    made = await prober(Workers(DecodeRequest, hanging=True)).probe(AskProbe(21, 31))
    assert (made.failed, made.fault) == ("decode", "deadline")


def test_a_segment_needs_its_audio_its_answer_and_the_template() -> None:
    settings = ProcessorSettings(max_segment_seconds=30.0, max_tokens_per_second=8.0)
    need = segment_need(VIEW, settings)
    template = len(PROMPT.head("")) + len(PROMPT.tail(None))
    assert need.tokens == VIEW.geometry.embeddings(3000) + 240 + template
