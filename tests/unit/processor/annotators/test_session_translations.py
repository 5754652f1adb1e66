"""Translations arrive between a session's other events, delay nothing, and are never revoked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pytest
from msgspec.structs import replace

from auricle.annotation.translation.text import agreement, mask
from auricle.audio.constants import SAMPLE_RATE
from auricle.core.errors import AuricleError, Overloaded, WorkerUnavailable
from auricle.frontend.link.session_line import SessionLine
from auricle.frontend.protocols.stream.resume import DeliveryTracker
from auricle.load.meters import DemandMeter
from auricle.processor.annotators.translations import (
    TRANSLATIONS,
    SessionTranslations,
    TranslationRules,
)
from auricle.processor.session.open_segment import EndedSegment
from auricle.protocol.annotation import (
    SegmentTranslation,
    TranslateReply,
    TranslateRequest,
    Translating,
    Untranslated,
)
from auricle.protocol.sessions import (
    Failed,
    HandedOver,
    OpenSession,
    ResumePoint,
    SegmentFinal,
    SegmentPartial,
    SessionDone,
    SessionEvent,
    SessionReady,
)
from auricle.protocol.stream import Usage

pytestmark = pytest.mark.unit
OPENED = OpenSession(
    *("s", "t", None, "", 640), translate=("es",), terms={"es": {"boat": "barca"}, "de": {"a": "b"}}
)
RULES = TranslationRules(5.0, 2, agreement)
READY, DONE, POINT = SessionReady("s"), SessionDone(Usage()), ResumePoint()


class Translator:
    """Translates each word of the source to capitals, after the committed words.

    `gates` delay the answer to a request, by its number; `faults` are raised instead of answers.
    """

    def __init__(self) -> None:
        self.asked: list[TranslateRequest] = []
        self.gates: dict[int, asyncio.Event] = {}
        self.faults: list[Exception | None] = []
        self.called = asyncio.Event()
        self.empty = False
        self.finish = "stop"
        self.closed = self.together = self.most = 0

    async def starting(self) -> bool:
        return self.empty

    def placement(self) -> Translator:
        return self

    def leave(self) -> None:
        self.closed += 1

    async def ask(
        self,
        request: TranslateRequest,
        _reply: object,
        seconds: float,
        _what: str,
        *,
        wait_for_room: bool = True,
    ) -> TranslateReply:
        assert wait_for_room == request.whole and seconds <= 5.0
        self.asked.append(request)
        self.called.set()
        self.together += 1
        self.most = max(self.most, self.together)
        try:
            if (gate := self.gates.get(len(self.asked) - 1)) is not None:
                await gate.wait()
        finally:
            self.together -= 1
        if self.faults and (fault := self.faults.pop(0)) is not None:
            raise fault
        known = len(request.answer.split())
        words = request.source.upper().split()[known:]
        return TranslateReply("".join(f" {word}" for word in words), self.finish)


def partial(
    segment: int, committed: str, ahead: str = " x", language: str = "English"
) -> SegmentPartial:
    return SegmentPartial(segment, committed, ahead, 640, language, POINT)


def final(segment: int, text: str = "a red boat", language: str = "English") -> SegmentFinal:
    return SegmentFinal(segment, text, 0, 1000, language, POINT)


class Session:
    """Events from a list; before each, requests are answered unless the test holds them back."""

    def __init__(
        self,
        translator: Translator,
        opened: OpenSession = OPENED,
        rules: TranslationRules = RULES,
    ) -> None:
        self.translator = translator
        self.asked = DemandMeter()
        self._translations = SessionTranslations(opened, rules, translator, self.asked)  # type: ignore[arg-type]

    async def _events(self, given: Sequence[SessionEvent]) -> AsyncGenerator[SessionEvent, None]:
        for event in given:
            for _ in range(20):  # iterations of the event loop, until nothing more can happen
                await asyncio.sleep(0)
            yield event

    def merged(self, *given: SessionEvent) -> AsyncGenerator[SessionEvent, None]:
        return self._translations.merged(self._events([READY, *given]))

    async def all_merged(self, *given: SessionEvent) -> list[SessionEvent]:
        async with asyncio.timeout(120), aclosing(self.merged(*given)) as events:
            return [event async for event in events]


def translations(events: Sequence[SessionEvent]) -> list[SegmentTranslation]:
    return [event for event in events if isinstance(event, SegmentTranslation)]


def missing(events: Sequence[SessionEvent]) -> list[str]:
    return [event.missing for event in translations(events) if event.final]


async def test_what_is_committed_is_translated_while_its_segment_is_open() -> None:
    translator = Translator()
    told = await Session(translator).all_merged(
        partial(0, "", "a"),
        partial(0, "a red", " bo"),
        partial(0, "a red boa", "t"),
        partial(0, "a red boat on", " the"),
        final(0, "a red boat on the sea"),
        DONE,
    )
    assert translations(told) == [
        SegmentTranslation(0, "es", "", "A RED"),
        SegmentTranslation(0, "es", "A", " RED BOAT ON"),
        SegmentTranslation(0, "es", "A RED BOAT ON THE SEA", final=True),
    ]
    assert told[-1] == DONE
    assert [one.source for one in translator.asked] == [
        "a red",
        "a red boat on",
        "a red boat on the sea",
    ]
    last = translator.asked[-1]
    assert (last.answer, last.draft, last.whole) == ("A", " RED BOAT ON", True)
    assert (last.session, last.tenant, last.source_language, last.target) == ("s", "t", "en", "es")
    assert last.terms == (("boat", "barca"),)
    assert not any(one.whole for one in translator.asked[:-1])


async def test_speech_counts_once_for_each_language_that_it_is_translated_into() -> None:
    clock = iter((0.0, 1.0)).__next__
    asked = DemandMeter(clock)
    two = replace(OPENED, translate=("es", "de"))
    ended = EndedSegment(None, 3 * SAMPLE_RATE)  # type: ignore[arg-type]
    SessionTranslations(two, RULES, Translator(), asked).ended(ended)  # type: ignore[arg-type]
    assert asked.take()[TRANSLATIONS].speech_seconds == 6.0


async def test_with_mask_k_all_but_the_last_words_are_committed_at_once() -> None:
    session = Session(Translator(), rules=TranslationRules(5.0, 2, mask(2)))
    told = await session.all_merged(partial(0, "a red boat", " on"), final(0), DONE)
    assert translations(told) == [
        SegmentTranslation(0, "es", "A", " RED BOAT"),
        SegmentTranslation(0, "es", "A RED BOAT", final=True),
    ]


async def test_the_segments_before_are_context() -> None:
    translator = Translator()
    await Session(translator).all_merged(
        final(0, "one"), final(1, "two"), final(2, "x"), final(3), DONE
    )
    assert translator.asked[-1].context == (("two", "TWO"), ("x", "X"))


async def test_text_waits_for_no_translation_and_only_the_newest_source_is_asked_for() -> None:
    translator = Translator()
    translator.gates = {0: asyncio.Event()}
    events = Session(translator).merged(
        *(partial(0, "a " * n, "b") for n in range(2, 9)), partial(1, "c", " d"), DONE
    )
    told = [await anext(events) for _ in range(9)]
    assert not translations(told) and len(translator.asked) == 1
    translator.gates[0].set()
    assert [event async for event in events][-1] == DONE
    assert [one.source for one in translator.asked] == ["a a", "a a a a a a a a", "c"]
    assert translator.most == 1


async def test_a_final_does_not_wait_for_the_answer_to_older_text() -> None:
    translator = Translator()
    translator.gates = {0: asyncio.Event()}
    told = await Session(translator).all_merged(partial(0, "a red"), final(0), DONE)
    assert translations(told) == [SegmentTranslation(0, "es", "A RED BOAT", final=True)]
    assert [one.whole for one in translator.asked] == [False, True]


async def test_each_language_is_asked_for_on_its_own() -> None:
    translator = Translator()
    translator.gates = {0: asyncio.Event()}  # Spanish
    opened = replace(OPENED, translate=("es", "de"))
    events = Session(translator, opened).merged(final(0), final(1), DONE)
    told = [await anext(events) for _ in range(5)]
    assert [(one.segment, one.language) for one in translations(told)] == [(0, "de"), (1, "de")]
    translator.gates[0].set()
    rest = translations([event async for event in events])
    assert [(one.segment, one.language) for one in rest] == [(0, "es"), (1, "es")]
    assert translator.closed == 2


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (WorkerUnavailable("gone"), "unavailable"),
        (Overloaded("full"), "overloaded"),
        (RuntimeError("a fault"), AuricleError.code),
    ],
)
async def test_a_segment_that_fails_is_said_to_be_missing_and_keeps_what_was_committed(
    fault: Exception, code: str
) -> None:
    translator = Translator()
    translator.faults = [None, None, fault, None]
    told = await Session(translator).all_merged(
        partial(0, "a red"), partial(0, "a red boat"), final(0), final(1, "b"), DONE
    )
    assert [one for one in translations(told) if one.final] == [
        SegmentTranslation(0, "es", "A", final=True, missing=code),
        SegmentTranslation(1, "es", "B", final=True),
    ]
    assert translator.asked[-1].context == ()


async def test_a_pool_that_is_down_is_asked_again_only_for_whole_text() -> None:
    translator = Translator()
    translator.faults = [WorkerUnavailable("gone"), None]
    told = await Session(translator).all_merged(
        partial(0, "a"), partial(0, "a red"), partial(0, "a red boat"), final(0), DONE
    )
    assert [one.whole for one in translator.asked] == [False, True]
    assert translations(told) == [SegmentTranslation(0, "es", "A RED BOAT", final=True)]


async def test_a_pool_that_is_full_is_asked_for_later_text() -> None:
    translator = Translator()
    translator.faults = [Overloaded("full"), None, None]
    await Session(translator).all_merged(partial(0, "a"), partial(0, "a red"), final(0), DONE)
    assert [one.source for one in translator.asked] == ["a", "a red", "a red boat"]


async def test_nobody_waits_for_a_pool_that_is_being_started() -> None:
    translator = Translator()
    translator.empty = True
    told = await Session(translator).all_merged(partial(0, "a"), final(0), DONE)
    assert missing(told) == ["starting"]
    assert not translator.asked


async def test_source_in_the_target_language_is_not_asked_for() -> None:
    translator = Translator()
    told = await Session(translator).all_merged(
        partial(0, "una", language="Spanish"), final(0, "una casa", "Spanish"), final(1), DONE
    )
    assert missing(told) == ["same_language", ""]
    assert [one.segment for one in translations(told)] == [0, 1]
    assert all(one.source_language == "en" for one in translator.asked)


async def test_a_language_that_the_model_lacks_is_named() -> None:
    """The worker rejects the language; text in a third language fails in the same way."""
    error = AuricleError("no Klingon")
    error.code = "unknown_language"
    translator = Translator()
    translator.faults = [error]
    told = await Session(translator, replace(OPENED, translate=("tlh",))).all_merged(final(0), DONE)
    assert missing(told) == ["unknown_language"]
    assert SegmentFinal in map(type, told)


async def test_segments_without_text_have_no_translation() -> None:
    translator = Translator()
    told = await Session(translator).all_merged(partial(0, "", "x"), final(0, ""), DONE)
    assert not translations(told) and not translator.asked


async def test_a_translation_that_was_cut_off_is_told_and_named() -> None:
    translator = Translator()
    translator.finish = "length"
    told = await Session(translator).all_merged(final(0), DONE)
    assert translations(told) == [
        SegmentTranslation(0, "es", "A RED BOAT", final=True, missing="length")
    ]


async def test_only_so_many_segments_wait() -> None:
    translator = Translator()
    translator.gates = {0: asyncio.Event()}
    events = Session(translator).merged(final(0), final(1), final(2), DONE)
    told = [await anext(events) for _ in range(5)]
    assert translations(told) == [SegmentTranslation(2, "es", "", final=True, missing="overloaded")]
    translator.gates[0].set()
    assert [one.segment for one in translations([event async for event in events])] == [0, 1]


async def test_a_session_that_fails_says_what_is_missing() -> None:
    translator = Translator()
    translator.gates = {2: asyncio.Event()}
    told = await Session(translator).all_merged(
        *(partial(0, "a red"), partial(0, "a red boat"), final(0), final(1)),
        Failed("internal", "x"),
    )
    assert [one for one in translations(told) if one.final] == [
        SegmentTranslation(0, "es", "A", final=True, missing="session_failed"),
        SegmentTranslation(1, "es", "", final=True, missing="session_failed"),
    ]
    assert isinstance(told[-1], Failed)


async def test_closing_ends_what_is_under_way() -> None:
    translator = Translator()
    translator.gates = {0: asyncio.Event()}
    events = Session(translator).merged(final(0), DONE)
    for _ in range(2):
        await anext(events)
    following = asyncio.ensure_future(anext(events))
    await translator.called.wait()
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following
    await events.aclose()
    left = [t for t in asyncio.all_tasks() if t.get_name() in ("translation", "event")]
    assert not left and translator.together == 0 and translator.closed == 1


# ── on another processor ────────────────────────────────────────────────────


class Client:
    """Reads a translation like a client, and checks that nothing is revoked or repeated."""

    def __init__(self) -> None:
        self.committed: dict[tuple[int, str], str] = {}
        self.ended: set[tuple[int, str]] = set()

    def read(self, event: SessionEvent) -> None:
        if isinstance(event, SegmentTranslation):
            key = event.segment, event.language
            assert key not in self.ended
            assert event.committed.startswith(self.committed.get(key, ""))
            self.committed[key] = event.committed
            self.ended |= {key} if event.final else set()


HISTORY = (
    partial(0, "a red"),
    partial(0, "a red boat"),
    final(0),
    partial(1, "it sails"),
    partial(1, "it sails on"),
    final(1, "it sails on"),
    DONE,
)


def after(events: Sequence[SessionEvent]) -> int:
    """The number of events of the history that a processor need not send again."""
    finals = [event for event in events if isinstance(event, SegmentFinal)]
    return next((HISTORY.index(event) + 1 for event in finals[-1:]), 0)


@pytest.mark.parametrize("lost_after", range(1, 13))
async def test_nothing_is_lost_or_doubled_when_the_processor_dies(lost_after: int) -> None:
    """The session continues at its last final, from the state that its link received."""
    usual, client, line = Client(), Client(), SessionLine(OPENED)
    for event in await Session(Translator()).all_merged(*HISTORY):
        usual.read(event)
    told: list[SessionEvent] = []
    async with aclosing(Session(Translator(), line.open_message()).merged(*HISTORY)) as events:
        async for event in events:
            told.append(event)
            client.read(event)
            line.receive(event)
            if len(told) == lost_after:
                break
    if line.over:
        return
    line.lost()
    opened = line.open_message()
    for event in await Session(Translator(), opened).all_merged(*HISTORY[after(told) :]):
        client.read(event)
    assert (
        client.committed == usual.committed == {(0, "es"): "A RED BOAT", (1, "es"): "IT SAILS ON"}
    )
    assert client.ended == usual.ended


async def test_a_session_that_is_handed_over_waits_for_no_translation() -> None:
    translator = Translator()
    translator.gates = {0: asyncio.Event()}
    line = SessionLine(OPENED)
    for event in await Session(translator).all_merged(final(0), HandedOver(POINT)):
        line.receive(event)
    opened = line.open_message()
    assert opened.resume.translations.untranslated == (
        Untranslated(0, "es", "", "a red boat", "English"),
    )
    told = await Session(Translator(), opened).all_merged(final(1, "b"), DONE)
    assert [one.committed for one in translations(told)] == ["A RED BOAT", "B"]


def test_a_resume_token_has_what_its_client_was_told() -> None:
    delivery = DeliveryTracker(translate=("es",))
    delivery.sent_text(partial(0, "a red"))
    delivery.sent_translation(SegmentTranslation(0, "es", "A", " RED"))
    assert delivery.state().point.translations == Translating((Untranslated(0, "es", "A"),))
    delivery.sent_text(final(0))
    state = delivery.state()
    waiting = Untranslated(0, "es", "A", "a red boat", "English")
    assert state.point.translations == Translating((waiting,))
    delivery = DeliveryTracker(state, ("es",))
    delivery.sent_translation(SegmentTranslation(0, "es", "A RED BOAT", final=True))
    assert delivery.state().point.translations == Translating(
        (), {"es": (("a red boat", "A RED BOAT"),)}
    )
