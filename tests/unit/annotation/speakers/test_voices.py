"""Voices are clustered as segments arrive, keep their numbers, and depend only on the state."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auricle.annotation.speakers.model import MOST_SPEAKERS, MOST_STATE_BYTES
from auricle.annotation.speakers.voices import Vectors, Voice, assign_voices, from_bytes, to_bytes
from auricle.core.errors import BadRequest

pytestmark = pytest.mark.unit
WIDTH, MODEL, OTHER = 192, b"12345678", b"87654321"


def people(count: int, seed: int = 0) -> Vectors:
    """Directions as dissimilar as strangers' voices."""
    draw = np.random.default_rng(seed).standard_normal((count, WIDTH))
    return (draw / np.linalg.norm(draw, axis=1, keepdims=True)).astype(np.float32)


def said(person: Vectors, windows: int, seed: int, spread: float = 0.6) -> Vectors:
    """Windows of one person, with a cosine of about 0.86 to the person's direction."""
    noise = np.random.default_rng(seed).standard_normal((windows, WIDTH)) / np.sqrt(WIDTH)
    found = person + spread * noise
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)


def conversation(order: list[int], persons: Vectors, most: int = MOST_SPEAKERS) -> list[int]:
    """The voice of each turn; each turn is a segment, and the state is serialized in between."""
    state, found = b"", []
    for turn, who in enumerate(order):
        voices = from_bytes(state, MODEL, WIDTH)
        labels, voices = assign_voices(voices, said(persons[who], 4, seed=turn), most)
        assert len(set(labels.tolist())) == 1
        found.append(int(labels[0]))
        state = to_bytes(voices, MODEL)
        assert len(state) <= MOST_STATE_BYTES
    return found


def test_voices_are_numbered_as_they_come_and_known_again() -> None:
    order = [2, 0, 2, 1, 0, 1, 2]
    assert conversation(order, people(3)) == [0, 1, 0, 2, 1, 2, 0]


def test_one_speaker_stays_one() -> None:
    assert conversation([0] * 40, people(1)) == [0] * 40


def test_sixteen_speakers_are_told_apart() -> None:
    order = [*range(16), *range(16)]
    assert conversation(order, people(16)) == order


def test_beyond_the_most_a_voice_is_the_nearest_one_and_moves_none() -> None:
    persons = people(3)
    found = conversation([0, 1, 2, 0, 1], persons, most=2)
    assert set(found) == {0, 1}
    assert (found[0], found[1], found[3], found[4]) == (0, 1, 0, 1)


def test_a_change_within_a_segment_is_found() -> None:
    persons = people(2)
    vectors = np.concatenate([said(persons[0], 5, 1), said(persons[1], 6, 2)])
    labels, voices = assign_voices((), vectors, MOST_SPEAKERS)
    assert len(voices) == 2
    assert len(set(labels[:5].tolist())) == len(set(labels[5:].tolist())) == 1
    assert labels[0] != labels[-1]


def test_new_voices_are_numbered_as_they_are_heard_however_long_each_speaks() -> None:
    persons = people(4)
    _, known = assign_voices((), said(persons[0], 4, 0), MOST_SPEAKERS)
    spoken = [(1, 2), (2, 5), (0, 2), (3, 4)]  # the person, and the number of windows
    vectors = np.concatenate([said(persons[who], count, 1 + who) for who, count in spoken])
    labels, voices = assign_voices(known, vectors, MOST_SPEAKERS)
    assert labels.tolist() == [1, 1, 2, 2, 2, 2, 2, 0, 0, 3, 3, 3, 3]
    for who, voice in enumerate(voices):
        assert int(np.argmax(persons @ voice.mean)) == who


def test_a_single_window_makes_no_new_voice_but_the_first() -> None:
    persons = people(2)
    _, voices = assign_voices((), said(persons[0], 1, 0), MOST_SPEAKERS)
    assert len(voices) == 1
    labels, after = assign_voices(voices, said(persons[1], 1, 1), MOST_SPEAKERS)
    assert labels.tolist() == [0]
    assert after == voices  # a cough must not move a voice


@settings(max_examples=30)
@given(order=st.lists(st.integers(0, 4), min_size=1, max_size=8))
def test_nothing_depends_on_where_a_session_goes_on(order: list[int]) -> None:
    """The state's bytes are all that a worker has, whether it is the same one or the next."""
    persons = people(5)
    kept: tuple[Voice, ...] = ()
    for turn, who in enumerate(order):
        vectors = said(persons[who], 3, seed=turn)
        once = assign_voices(kept, vectors, MOST_SPEAKERS)
        again = assign_voices(
            from_bytes(to_bytes(kept, MODEL), MODEL, WIDTH), vectors, MOST_SPEAKERS
        )
        assert once[0].tolist() == again[0].tolist()
        assert to_bytes(once[1], MODEL) == to_bytes(again[1], MODEL)
        kept = from_bytes(to_bytes(once[1], MODEL), MODEL, WIDTH)


def test_bytes_are_the_same_after_a_round_trip() -> None:
    _, voices = assign_voices((), said(people(1)[0], 5, 0), MOST_SPEAKERS)
    state = to_bytes(voices, MODEL)
    assert to_bytes(from_bytes(state, MODEL, WIDTH), MODEL) == state


def test_a_voice_does_not_grow_for_ever() -> None:
    person = people(1)[0]
    voices: tuple[Voice, ...] = ()
    for turn in range(30):
        _, voices = assign_voices(voices, said(person, 40, turn), MOST_SPEAKERS)
    assert voices[0].windows == 400
    assert len(to_bytes(voices, MODEL)) == len(to_bytes(voices[:1], MODEL))


@pytest.mark.parametrize("change", [lambda s: OTHER + s[8:], lambda s: s[:-1], lambda s: s[:5]])
def test_another_state_is_refused(change: object) -> None:
    _, voices = assign_voices((), said(people(1)[0], 3, 0), MOST_SPEAKERS)
    with pytest.raises(BadRequest):
        from_bytes(change(to_bytes(voices, MODEL)), MODEL, WIDTH)  # type: ignore[operator]
