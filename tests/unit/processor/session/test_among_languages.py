"""Answers in one of the requested languages, for any language that the model detects."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from auricle.core.errors import BadRequest, Overloaded
from auricle.processor.decode_requests import LanguageConstraint
from auricle.processor.session.actions import Decode, DecodeTask
from auricle.protocol.recognition import DecodeReply, DecodeRequest
from auricle.protocol.sessions import SegmentFinal, SegmentPartial
from tests.fakes.workers import GRID, PROMPT, ScriptedWorkers, counting, feed, session

pytestmark = pytest.mark.unit
TAIL = PROMPT.tail(None)
MARK = PROMPT.opening_in("German")[-1]


def plain(text: str) -> tuple[int, ...]:
    return PROMPT._plain_ids(text)


@dataclass
class Model:
    """Detects `heard`.

    With another language forced, it generates that language's name, with the log probability in
    `sure`.
    """

    heard: str = "English"
    sure: dict[str, float] = field(default_factory=dict)
    asked: list[Decode] = field(default_factory=list)
    fails: Exception | None = None

    async def __call__(self, decode: Decode, scored: bool) -> DecodeReply:
        self.asked.append(decode)
        begun = decode.task.tail[len(TAIL) :]
        if MARK not in begun:
            tokens = (*PROMPT.opening_in(self.heard)[len(begun) :], *plain(f" in {self.heard}"))
            return DecodeReply(tokens, "stop", 9, 0, 0)
        if self.fails is not None:
            raise self.fails
        language, _ = PROMPT.answer(begun, None)
        tokens = plain(f" in {language}")
        logprobs = (self.sure.get(language, -1.0),) * len(tokens) if scored else ()
        return DecodeReply(tokens, "stop", 9, 0, 0, logprobs=logprobs)


class Segments:
    """The part of a session's state that the code under test uses."""

    def __init__(self, model: Model, *languages: str) -> None:
        self.stability = SimpleNamespace(committed=())
        state = SimpleNamespace(segment=SimpleNamespace(stability=self.stability))
        self._among = LanguageConstraint(cast(Any, state), PROMPT, None, languages, model)

    async def decoded(self, segment: int = 0, draft: tuple[int, ...] = ()) -> DecodeReply:
        committed = self.stability.committed
        task = DecodeTask((1,), (*TAIL, *committed), 99, final=False, draft=draft)
        return await self._among.reply(Decode(16_000, task, segment, 1000, 0.0, 0.0), False)

    async def said(self, segment: int = 0, draft: tuple[int, ...] = ()) -> tuple[str, str]:
        """Language and text of the whole answer."""
        reply = await self.decoded(segment, draft)
        return PROMPT.answer((*self.stability.committed, *reply.tokens), None)


async def test_a_language_that_was_named_is_taken_as_it_is_heard() -> None:
    model = Model("German")
    assert await Segments(model, "English", "German").said() == ("German", "in German")
    assert len(model.asked) == 1


async def test_without_names_any_language_is_taken() -> None:
    model = Model("Danish")
    assert await Segments(model).said() == ("Danish", "in Danish")
    assert len(model.asked) == 1


async def test_instead_of_another_the_surest_of_those_named_is_taken() -> None:
    model = Model("Danish", {"English": -2.0, "German": -0.5, "French": -3.0})
    segments = Segments(model, "English", "German", "French")
    assert await segments.said() == ("German", "in German")
    assert len(model.asked) == 4
    reply = await segments.decoded()
    assert reply.tokens[: len(PROMPT.opening_in("German"))] == PROMPT.opening_in("German")


async def test_it_is_chosen_anew_until_it_is_committed() -> None:
    """The language of a segment's first second does not bind the rest."""
    model = Model("Danish", {"German": -0.5})
    segments = Segments(model, "English", "German")
    draft = (*PROMPT.opening_in("German"), *plain(" in German"))
    assert await segments.said(draft=draft) == ("German", "in German")
    begun = {PROMPT.answer(one.task.tail[len(TAIL) :], None)[0]: one for one in model.asked[1:]}
    assert begun["German"].task.draft == plain(" in German") and begun["English"].task.draft == ()
    model.sure = {"English": -0.1}
    assert await segments.said() == ("English", "in English")
    segments.stability.committed = PROMPT.opening_in("English")
    model.sure = {"German": -0.1}
    before = len(model.asked)
    assert await segments.said() == ("English", "in English")
    assert len(model.asked) == before + 1


async def test_what_is_committed_of_its_name_is_continued() -> None:
    model = Model("Danish", {"German": -0.5})
    segments = Segments(model, "English", "German")
    segments.stability.committed = PROMPT.opening_in("German")[:1]
    assert await segments.said() == ("German", "in German")
    assert model.asked[-1].task.tail == (*TAIL, *PROMPT.opening_in("German"))


async def test_a_language_that_is_committed_stays() -> None:
    """The segment was begun by another processor, before the languages were checked."""
    model = Model("Danish")
    segments = Segments(model, "English", "German")
    segments.stability.committed = PROMPT.opening_in("Danish")
    assert (await segments.said())[0] == "Danish"
    assert len(model.asked) == 1


async def test_a_choice_that_was_not_finished_is_made_again() -> None:
    model = Model("Danish", {"German": -0.5}, fails=Overloaded("full"))
    segments = Segments(model, "English", "German")
    with pytest.raises(Overloaded):
        await segments.said()
    model.fails = None
    assert (await segments.said())[0] == "German"


async def test_silence_has_no_language_and_is_decoded_once() -> None:
    model = Model("None")
    assert (await Segments(model, "German").said())[0] == ""
    assert len(model.asked) == 1


async def test_all_text_of_a_session_is_in_a_language_that_was_named() -> None:
    def says(request: DecodeRequest) -> str:
        begun = request.tail != TAIL
        return counting(request) if begun else counting(request).replace("English", "Danish")

    workers = ScriptedWorkers(says)
    told = await feed(session(workers, languages=("en", "de"), logprobs=True), 8 * GRID)
    texts = [event for event in told if isinstance(event, SegmentPartial | SegmentFinal)]
    assert {event.language for event in texts} == {"English"}
    final = texts[-1]
    assert isinstance(final, SegmentFinal) and final.text.startswith("one two three")
    assert b"".join(token.data for token in final.tokens).decode() == final.text
    assert len(workers.decodes) == len(texts) + 3  # it detects Danish until English is committed


def test_languages_that_the_checkpoint_lacks_are_left_out() -> None:
    assert PROMPT.language_constraint(["de", "en", "English"]) == ("English",)
    assert PROMPT.language_constraint([]) == ()
    with pytest.raises(BadRequest, match=r"'de, xx' are not supported; supported: en \(English"):
        PROMPT.language_constraint(["de", "xx"])


def test_an_answers_beginning_is_what_the_prompt_would_force() -> None:
    opening = PROMPT.opening_in("German")
    assert (*TAIL, *opening) == PROMPT.tail("German")
    assert PROMPT.answer(opening, None) == ("German", "")
    assert opening[-1] == MARK
