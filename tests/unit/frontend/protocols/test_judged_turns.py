"""Clients of `/v2/listen` and `/v3/ws` get the turns of the turn model, if there is one."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auricle.audio.pcm import Int16
from auricle.audio.voice_activity import VAD_FRAME
from auricle.frontend.audio.chunks import TurnPause, TurnResumption
from auricle.frontend.audio.turn_detection import TurnWait
from auricle.frontend.protocols.assemblyai.options import parse_options
from auricle.frontend.protocols.assemblyai.session import assemblyai_protocol
from auricle.frontend.protocols.deepgram.flux import FluxReplies, Thresholds, flux_protocol
from auricle.frontend.session.turns import Turns
from tests.fakes.deepgram import AUDIO as FLUX
from tests.fakes.deepgram import CLOSE, Client, served
from tests.fakes.flux import FORCE, final, speech, told, until
from tests.fakes.turn_model import judged

pytestmark = pytest.mark.unit
TERMINATE = '{"type": "Terminate"}'
S = 16_000


def silence(milliseconds: int) -> bytes:
    return bytes(32 * milliseconds)


def loud(milliseconds: int = 640) -> bytes:
    return np.full(16 * milliseconds, 8_000, "<i2").tobytes()


class Says:
    """A turn model that returns these probabilities in sequence."""

    def __init__(self, *probabilities: float) -> None:
        self.left = list(probabilities)

    async def probability(self, client: str, pcm: Int16) -> float:
        return self.left.pop(0)


class ByContent:
    """A turn model whose result depends on each sample of its input."""

    async def probability(self, client: str, pcm: Int16) -> float:
        return judged(pcm)


async def flux(*messages: str | bytes, model: Any, **options: object) -> list[dict[str, Any]]:
    """The turn messages, without updates. Audio is sent in packets of 20 ms."""
    query = f"{FLUX}&{urlencode(options)}" if options else FLUX
    client = await served(*cut(messages, 640), query=query, protocol=flux_protocol, turns=model)
    return [m for m in client.sent if m["type"] == "TurnInfo" and m["event"] != "Update"]


async def assemblyai(*audio: str | bytes, model: Any, **options: object) -> Client:
    query = urlencode({"sample_rate": 16_000, **options})
    messages = (*cut(audio, 640), TERMINATE)
    return await served(*messages, query=query, protocol=assemblyai_protocol, turns=model)


def cut(messages: tuple[str | bytes, ...], packet: int) -> list[str | bytes]:
    """The same messages, with packets of at most `packet` bytes."""
    found: list[str | bytes] = []
    for message in messages:
        if isinstance(message, str):
            found.append(message)
        else:
            found += [message[at : at + packet] for at in range(0, len(message), packet)]
    return found


def events(turns: list[dict[str, Any]]) -> list[tuple[str, float]]:
    return [(turn["event"], turn["end_of_turn_confidence"]) for turn in turns]


# ── Flux ────────────────────────────────────────────────────────────────────


async def test_a_turn_that_the_model_takes_for_over_ends_at_once() -> None:
    model = Says(0.8123)
    turns = await flux(loud(), silence(320), FORCE, CLOSE, model=model)
    assert events(turns) == [("StartOfTurn", 0.0), ("EndOfTurn", 0.812)]
    assert turns[-1]["trigger"] == "model"
    assert not model.left


async def test_a_turn_that_the_model_does_not_take_for_over_is_waited_for() -> None:
    """At half of the threshold, the wait is half: 200 + 4800 / 2 ms."""
    early = await flux(loud(), silence(2_500), FORCE, CLOSE, model=Says(0.35))
    assert events(early) == [("StartOfTurn", 0.0), ("EndOfTurn", 0.0)]
    assert early[-1]["trigger"] == "manual"
    late = await flux(loud(), silence(2_900), CLOSE, model=Says(0.35))
    assert events(late) == [("StartOfTurn", 0.0), ("EndOfTurn", 0.35)]
    assert late[-1]["trigger"] == "model"


async def test_a_silence_ends_a_turn_in_any_case() -> None:
    """The model is never confident enough; the final text of the speech arrives first."""
    for probability, threshold in ((0.0, 0.7), (1.0, 1.0)):
        wanted = {"eot_threshold": threshold, "eot_timeout_ms": 1_000}
        turns = await flux(loud(), silence(1_500), CLOSE, model=Says(probability), **wanted)
        assert [event for event, _ in events(turns)] == ["StartOfTurn", "EndOfTurn"]
        assert turns[-1]["trigger"] == "timeout"


async def test_a_client_hears_of_a_turn_that_may_be_over() -> None:
    wanted = {"eot_threshold": 0.8, "eager_eot_threshold": 0.4}
    turns = await flux(loud(), silence(3_300), CLOSE, model=Says(0.4), **wanted)
    assert events(turns) == [("StartOfTurn", 0.0), ("EagerEndOfTurn", 0.4), ("EndOfTurn", 0.4)]
    assert turns[1]["transcript"] == turns[2]["transcript"] == "word"
    sure = await flux(loud(), silence(3_300), CLOSE, model=Says(0.8), **wanted)
    assert events(sure) == [("StartOfTurn", 0.0), ("EndOfTurn", 0.8)]
    unsure = await flux(loud(), silence(5_300), CLOSE, model=Says(0.1), **wanted)
    assert events(unsure) == [("StartOfTurn", 0.0), ("EndOfTurn", 0.1)]


async def test_a_turn_goes_on_with_speech_before_its_end() -> None:
    wanted = {"eot_threshold": 0.8, "eager_eot_threshold": 0.4}
    audio = (loud(), silence(1_500), loud(), silence(1_500))
    turns = await flux(*audio, CLOSE, model=Says(0.5, 0.9), **wanted)
    assert events(turns) == [
        ("StartOfTurn", 0.0),
        ("EagerEndOfTurn", 0.5),
        ("TurnResumed", 0.0),
        ("EndOfTurn", 0.9),
    ]
    assert turns[-1]["transcript"] == "word word"


async def test_thresholds_may_change_between_two_turns() -> None:
    configure = json.dumps({"type": "Configure", "thresholds": {"eot_threshold": 0.9}})
    audio = (loud(), silence(640))
    messages = (*audio, configure, *audio, *audio, FORCE, CLOSE)
    turns = await flux(*messages, model=Says(0.8, 0.95, 0.8))
    found = [(turn["trigger"], turn["end_of_turn_confidence"]) for turn in turns[1::2]]
    assert found == [("model", 0.8), ("model", 0.95), ("manual", 0.0)]


def test_a_pause_in_speech_says_nothing_of_the_next_one() -> None:
    subject = Turns(Thresholds().policy(500, judged=True), FluxReplies("sess_1"))
    started, piece, stopped = speech(0.0, 3.0)
    subject.on_endpointing([started, TurnPause(S, 0.65), TurnResumption(until(1.3))], until(1.5))
    subject.on_endpointing([piece, stopped], until(6.0))
    assert told(subject.on_final(final("one", 0.0, 3.0))) == [("StartOfTurn", 0, "one")]


def ends(client: Client) -> list[tuple[Any, ...]]:
    kept = ("transcript", "end_of_turn_confidence", "trigger", "turn_index", "turn_order")
    return [
        tuple(message.get(name) for name in kept)
        for message in client.sent
        if message.get("event") == "EndOfTurn" or message.get("end_of_turn")
    ]


TALK = st.lists(st.tuples(st.integers(4, 12), st.integers(1, 60)), min_size=1, max_size=4)


@settings(max_examples=40, deadline=None)
@given(TALK, st.lists(st.floats(0, 1), max_size=10))
def test_the_same_audio_has_the_same_turns_however_it_is_cut(
    talk: list[tuple[int, int]], cuts: list[float]
) -> None:
    """In one message and in packets of any size; for both protocols."""
    frames = [one for speech, pause in talk for one in [8_000] * speech + [0] * pause]
    pcm = np.repeat(np.array(frames, "<i2"), VAD_FRAME) + np.arange(len(frames) * VAD_FRAME) % 50
    data = pcm.astype("<i2").tobytes()
    places = sorted({0, len(data), *(int(cut * len(data)) for cut in cuts)})
    packets = [data[begin:end] for begin, end in pairwise(places)]
    eager = f"{FLUX}&eot_threshold=0.8&eager_eot_threshold=0.4&eot_timeout_ms=1500"
    least = "sample_rate=16000&end_of_turn_confidence_threshold=0.6&min_turn_silence=400"

    async def both(*audio: bytes) -> list[list[tuple[Any, ...]]]:
        model = ByContent()
        flux = await served(*audio, CLOSE, query=eager, protocol=flux_protocol, turns=model)
        other = await served(
            *audio, TERMINATE, query=least, protocol=assemblyai_protocol, turns=model
        )
        return [ends(flux), ends(other)]

    assert asyncio.run(both(*packets)) == asyncio.run(both(data))


# ── AssemblyAI ──────────────────────────────────────────────────────────────


async def test_assemblyais_turns_end_by_the_model_too() -> None:
    client = await assemblyai(loud(), silence(320), loud(), silence(900), model=Says(0.5, 0.2))
    first, second = ends(client)
    assert (first[:2], second[:2]) == (("word", 0.5), ("word", 0.2))


async def test_assemblyais_silences_bound_what_the_model_says() -> None:
    """A confident model waits for the minimum silence, an uncertain one for at most the maximum.

    Silence counts from 64 ms earlier, because the end of speech is detected with that delay.
    """
    for probability, silences, shorter, longer in (
        (0.9, {"min_turn_silence": 700}, 608, 704),
        (0.9, {"min_end_of_turn_silence_when_confident": 700}, 608, 704),
        (0.0, {"max_turn_silence": 2_000}, 1_888, 1_984),
        (1.0, {"end_of_turn_confidence_threshold": 1, "max_turn_silence": 900}, 800, 896),
    ):
        for pause, words in ((shorter, ["word word"]), (longer, ["word", "word"])):
            audio = (loud(), silence(pause), loud())
            client = await assemblyai(*audio, model=Says(probability), **silences)
            assert [end[0] for end in ends(client)] == words, (silences, pause)


async def test_a_turn_of_assemblyais_that_ends_before_a_question_needs_none() -> None:
    client = await assemblyai(loud(), silence(320), model=Says(), max_turn_silence=200)
    assert len(ends(client)) == 1


# ── options ─────────────────────────────────────────────────────────────────


def test_thresholds_become_the_models_wait_where_there_is_one() -> None:
    thresholds = Thresholds(eot=0.8, eager=0.4, timeout_ms=3_000)
    assert thresholds.policy(500, judged=False).turns is None
    wait = thresholds.policy(500, judged=True).turns
    assert wait == TurnWait(0.8, 3_000, eager=0.4, speech_ms=500)
    query = "sample_rate=16000&min_turn_silence=300&max_turn_silence=900"
    assert parse_options(query, 500).silence == 500
    options = parse_options(query, 500, judged=True)
    assert options.silence == TurnWait(0.4, 900, least_ms=300, speech_ms=500)
    changed = options.updated({"end_of_turn_confidence_threshold": 0.7})
    assert changed.silence == TurnWait(0.7, 900, least_ms=300, speech_ms=500)
