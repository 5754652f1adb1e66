"""Words of a client's context that contradict the audio do not get into the text."""

from __future__ import annotations

import pytest

from auricle.processor.decode_requests import ContextGuard, SpokenWord, names, spoken_words
from auricle.protocol.recognition import DecodeRequest
from auricle.protocol.sessions import SegmentFinal, SegmentPartial
from tests.fakes.workers import GRID, PROMPT, ScriptedWorkers, feed, session

pytestmark = pytest.mark.unit
CONTEXT = "cat, horse"
TEXT = "language English<asr_text>"
PLAIN_HEAD = PROMPT.head("")


def sure(text: str, probability: float = 0.99) -> list[SpokenWord]:
    return [SpokenWord(word, probability) for word in text.split()]


def says(with_context: str, without: str) -> ScriptedWorkers:
    """Workers whose answer depends on whether the context is in the prompt."""

    def answer(request: DecodeRequest) -> str:
        return TEXT + (without if request.head == PLAIN_HEAD else with_context)

    return ScriptedWorkers(answer)


async def told(workers: ScriptedWorkers, **settings: object) -> tuple[list[str], str]:
    """All partial texts of one segment, and its final text."""
    subject = session(workers, context=CONTEXT, context_characters=0, **settings)  # type: ignore[arg-type]
    events = await feed(subject, 4 * GRID)
    partials = [e.committed + e.partial for e in events if isinstance(e, SegmentPartial)]
    (final,) = (e.text for e in events if isinstance(e, SegmentFinal))
    return partials, final


def test_entries_of_a_list_and_names_in_running_text_are_guarded() -> None:
    assert names("cat, black horse; Jean-Luc\nlast entry") == {
        *("cat", "black", "horse", "jean-luc", "last", "entry")
    }
    assert names("this is a talk about cars by Anna Maier and the B2 station") == {
        *("anna", "maier", "b2")
    }
    assert names("") == set()


async def test_a_word_that_only_the_context_says_is_not_written() -> None:
    workers = says("the cat is big", "the hat is big")
    assert await told(workers) == (["the hat is big"] * 4, "the hat is big")
    # The first decode was doubtful, so the rest of the segment is decoded without the context.
    assert [request.head == PLAIN_HEAD for request in workers.decodes] == [False, *[True] * 5]


async def test_a_word_where_nothing_is_said_is_not_written() -> None:
    assert (await told(says("the big cat", "the big")))[1] == "the big"


async def test_a_word_that_the_model_was_unsure_of_is_written() -> None:
    workers = says("the cat is big", "the hat is big")
    workers.logprob = -1.0
    assert await told(workers) == (["the cat is big"] * 4, "the cat is big")
    # The guard doubts it once, not at every decode.
    assert [request.head == PLAIN_HEAD for request in workers.decodes].count(True) == 1


async def test_a_word_that_is_said_is_doubted_once() -> None:
    workers = says("the cat is big", "the cat is big")
    assert (await told(workers))[1] == "the cat is big"
    assert [request.head == PLAIN_HEAD for request in workers.decodes].count(True) == 1


@pytest.mark.parametrize(
    ("context_guard", "text"), [(True, "the dog is big"), (False, "the cat is big")]
)
async def test_what_is_not_doubted_is_decoded_once(context_guard: bool, text: str) -> None:
    workers = says(text, "nothing")
    assert (await told(workers, context_guard=context_guard))[1] == text
    assert len(workers.decodes) == 5


def test_a_word_is_doubted_again_in_the_next_segment() -> None:
    guard = ContextGuard(CONTEXT)
    assert guard.doubts("a cat")
    assert guard.believes("a cat", sure("a cat"))
    assert not guard.doubts("a cat")
    assert guard.doubts("a cat and a horse")
    guard.start_segment()
    assert guard.doubts("a cat")


def test_only_what_differs_at_the_word_counts() -> None:
    guard = ContextGuard(CONTEXT)
    # At other positions the answers may differ, for any confidence.
    assert guard.believes("five cat", [*sure("nine"), *sure("cat")])
    assert not guard.believes("five cat", [*sure("five"), *sure("hat")])
    assert guard.believes("five cat", [*sure("five"), *sure("hat", 0.5)])


def test_a_word_is_as_sure_as_its_least_sure_token() -> None:
    words = spoken_words(
        [(b"the c", 0.0), (b"at", -1.0), (" é".encode()[:2], -2.0), (b"\xa9t", 0.0)]
    )
    assert [word.text for word in words] == ["the", "cat", "ét"]
    assert [word.probability for word in words] == pytest.approx([1.0, 0.3679, 0.1353], abs=1e-3)
