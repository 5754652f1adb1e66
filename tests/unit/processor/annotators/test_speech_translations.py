"""The speech model's translations follow each final, delay nothing, and are reported if missing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import numpy as np
import pytest
from msgspec.structs import replace

from auricle.annotation.translation.targets import Directions
from auricle.annotation.translation.text import agreement
from auricle.checkpoints.files import open_checkpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.config.settings import ProcessorSettings
from auricle.core.errors import AuricleError, BadRequest, WorkerUnavailable
from auricle.load.meters import DemandMeter
from auricle.processor.annotators.sessions import Annotators
from auricle.processor.annotators.speech_translations import (
    English,
    SpeechTranslations,
    SpeechTranslator,
)
from auricle.processor.annotators.translations import TranslationRules
from auricle.processor.pools import EncodePool, PdPool
from auricle.processor.session.open_segment import EndedSegment, OpenSegment
from auricle.processor.session.windows import KeyScheme
from auricle.protocol.annotation import SegmentTranslation, Translating, Untranslated
from auricle.protocol.recognition import DecodeReply, DecodeRequest
from auricle.protocol.sessions import (
    Failed,
    HandedOver,
    OpenSession,
    ResumePoint,
    SegmentFinal,
    SessionDone,
    SessionEvent,
    SessionReady,
)
from auricle.protocol.stream import Usage
from auricle_testing.checkpoints.whisper import random_whisper
from tests.fakes.workers import CHECKPOINT, PROMPT, ScriptedWorkers, noise

pytestmark = pytest.mark.unit
SECOND = 16_000
OPENED = OpenSession("s", "t", None, "", 1280, translate=("en",))
DONE, POINT = SessionDone(Usage()), ResumePoint()


class Translator:
    """Writes the segment's number on the test's signal."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int, str]] = []
        self.gates: dict[int, asyncio.Event] = {}
        self.faults: list[Exception] = []
        self.whole = True

    async def english(
        self, opened: OpenSession, segment: OpenSegment, samples: int, language: str
    ) -> English:
        self.asked.append((segment.number, samples, language))
        if (gate := self.gates.get(segment.number)) is not None:
            await gate.wait()
        if self.faults:
            raise self.faults.pop(0)
        return English(f"number {segment.number}", self.whole)


def final(number: int, text: str = "eins", language: str = "German") -> SegmentFinal:
    return SegmentFinal(number, text, 0, 1000, language, POINT)


def last(number: int, text: str = "", missing: str = "") -> SegmentTranslation:
    return SegmentTranslation(number, "en", text, final=True, missing=missing)


def segment(number: int) -> OpenSegment:
    return OpenSegment(number, 0, CHECKPOINT.geometry, KeyScheme("f", "float32", "t"))


class Session:
    """Events from a list; segments in `elsewhere` ended on another processor."""

    def __init__(
        self,
        translator: Translator,
        opened: OpenSession = OPENED,
        elsewhere: Sequence[int] = (),
    ) -> None:
        rules = TranslationRules(5.0, 4, agreement)
        self._translations = SpeechTranslations(opened, rules, translator)  # type: ignore[arg-type]
        self._elsewhere = elsewhere

    async def _events(self, given: Sequence[SessionEvent]) -> AsyncGenerator[SessionEvent, None]:
        for event in given:
            if isinstance(event, SegmentFinal) and event.segment not in self._elsewhere:
                self._translations.ended(EndedSegment(segment(event.segment), SECOND))
            yield event

    def merged(self, *given: SessionEvent) -> AsyncGenerator[SessionEvent, None]:
        return self._translations.merged(self._events(given))

    async def all_merged(self, *given: SessionEvent) -> list[SessionEvent]:
        async with asyncio.timeout(120), aclosing(self.merged(*given)) as events:
            return [event async for event in events]


async def test_text_does_not_wait_and_done_does() -> None:
    translator = Translator()
    translator.gates = {0: asyncio.Event()}
    events = Session(translator).merged(final(0), final(1), DONE)
    assert [await anext(events), await anext(events)] == [final(0), final(1)]
    rest = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    assert not rest.done()
    translator.gates[0].set()
    assert [await rest, await anext(events)] == [last(0, "number 0"), last(1, "number 1")]
    assert [event async for event in events] == [DONE]
    assert translator.asked == [(0, SECOND, "German"), (1, SECOND, "German")]


async def test_english_is_its_own_translation_and_silence_has_none() -> None:
    translator = Translator()
    told = await Session(translator).all_merged(final(0, "one", "English"), final(1, ""), DONE)
    assert [event for event in told if isinstance(event, SegmentTranslation)] == [
        last(0, missing="same_language")
    ]
    assert not translator.asked


@pytest.mark.parametrize(
    ("fault", "why"),
    [(WorkerUnavailable("gone"), "unavailable"), (RuntimeError("?"), AuricleError.code)],
)
async def test_what_fails_is_missing_and_the_rest_goes_on(fault: Exception, why: str) -> None:
    translator = Translator()
    translator.faults = [fault]
    told = await Session(translator).all_merged(final(0), final(1), DONE)
    assert [event for event in told if isinstance(event, SegmentTranslation)] == [
        *(last(0, missing=why), last(1, "number 1")),
    ]


async def test_an_answer_that_was_cut_off_is_told_as_such() -> None:
    translator = Translator()
    translator.whole = False
    assert last(0, "number 0", "length") in await Session(translator).all_merged(final(0), DONE)


async def test_of_what_ended_elsewhere_there_is_no_audio() -> None:
    untold = (
        Untranslated(0, "en", source="null", spoken="German"),
        Untranslated(1, "en"),  # still open
        Untranslated(0, "es", source="null", spoken="German"),
    )
    opened = replace(OPENED, resume=ResumePoint(translations=Translating(untold)))
    session = Session(Translator(), opened=opened, elsewhere=[1])
    told = await session.all_merged(SessionReady("s"), final(1), DONE)
    assert [event for event in told if isinstance(event, SegmentTranslation)] == [
        *(last(0, missing="no_audio"), last(1, missing="no_audio")),
    ]


@pytest.mark.parametrize(
    ("end", "told"),
    [(HandedOver(POINT), []), (Failed("x", ""), [last(0, missing="session_failed")])],
)
async def test_a_session_that_ends_early_leaves_it_to_the_next_one_or_says_so(
    end: SessionEvent, told: list[SegmentTranslation]
) -> None:
    translator = Translator()
    translator.gates = {0: asyncio.Event()}
    found = await Session(translator).all_merged(final(0), end)
    assert [event for event in found if isinstance(event, SegmentTranslation)] == told
    assert found[-1] == end


# ── one translation ─────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def prompt(tmp_path_factory: pytest.TempPathFactory) -> PromptFormat:
    path = tmp_path_factory.mktemp("whisper")
    random_whisper(path)
    return PromptFormat(open_checkpoint(path))


class Workers(ScriptedWorkers):
    """Decodes to `tokens`."""

    def __init__(self, tokens: tuple[int, ...], finish: str = "stop") -> None:
        super().__init__(lambda _: "")
        self.reply = DecodeReply(tokens, finish, 9, 0, 0)

    async def call(self, message: object, reply: object, instance: int, seconds: float) -> object:
        if isinstance(message, DecodeRequest):
            self.decodes.append(message)
            return self.reply
        return await super().call(message, reply, instance, seconds)


async def translated(prompt: PromptFormat, workers: Workers) -> English:
    pools = EncodePool(workers, 60.0, 3), PdPool(workers, 60.0, 3)  # type: ignore[arg-type]
    translator = SpeechTranslator(prompt, ProcessorSettings.model_validate({}), *pools)
    heard = segment(3)
    heard.audio.push(np.frombuffer(noise(2 * SECOND), "<i2"))
    return await translator.english(OPENED, heard, 2 * SECOND, "German")


async def test_a_segment_is_decoded_once_more_with_the_other_task(prompt: PromptFormat) -> None:
    workers = Workers(prompt._plain_ids(" the dog"))
    assert await translated(prompt, workers) == English("the dog", True)
    (asked,) = workers.decodes
    shown = prompt._tokenizer.decode(asked.tail, skip_special_tokens=False)
    assert shown == "<|startoftranscript|><|de|><|translate|><|notimestamps|>"
    assert asked.final and asked.background and asked.max_tokens == 16
    assert asked.session != OPENED.session  # its segment stays open


async def test_of_a_loop_what_comes_before_it_counts(prompt: PromptFormat) -> None:
    once = prompt._plain_ids(" the dog")
    found = await translated(prompt, Workers(once * 20))
    assert found == English("the dog", False)
    assert await translated(prompt, Workers(once, "length")) == English("the dog", False)


# ── the translator ──────────────────────────────────────────────────────────


def annotators(directions: Directions, translator: object = None) -> Annotators:
    return Annotators(
        *(ProcessorSettings.model_validate({}), PROMPT, DemandMeter(), None, None, translator),  # type: ignore[arg-type]
        speech_translator=Translator() if directions.english_by_speech else None,  # type: ignore[arg-type]
        directions=directions,
    )


def test_without_a_pool_english_is_the_speech_models() -> None:
    assert set(annotators(Directions(None, True)).requested(OPENED)) == {"speech_translations"}
    assert not annotators(Directions(None, True)).requested(replace(OPENED, translate=()))


@pytest.mark.parametrize("directions", [Directions(), Directions(None, True)])
def test_a_language_without_a_translator_is_refused(directions: Directions) -> None:
    with pytest.raises(BadRequest):
        annotators(directions).requested(replace(OPENED, translate=("es",)))
