"""Words in messages of live protocols: with times of decodes at once, or the aligner's later."""

from __future__ import annotations

from dataclasses import replace as replace_options
from typing import Any

import pytest
from msgspec.structs import replace

from auricle.core.errors import BadRequest, UnsupportedValue
from auricle.frontend.link.words import HeldFinals
from auricle.frontend.protocols.assemblyai.options import parse_options as parse_streaming
from auricle.frontend.protocols.assemblyai.session import AssemblyReplies as StreamingReplies
from auricle.frontend.protocols.assemblyai.session import words_of
from auricle.frontend.protocols.deepgram.flux import FluxReplies
from auricle.frontend.protocols.deepgram.live import Utterances
from auricle.frontend.protocols.deepgram.messages import DeepgramReplies
from auricle.frontend.protocols.deepgram.options import ListenOptions, parse_options
from auricle.frontend.protocols.riva.options import RecognitionOptions, parse_config
from auricle.frontend.protocols.riva.service import Results
from auricle.frontend.session.turns import Turn, Turns, TurnSegment
from auricle.frontend.transport.grpc.schema import message
from auricle.protocol.sessions import ResumePoint, SegmentFinal, SegmentPartial, SegmentWords
from auricle.protocol.stream import Word, WordSource
from tests.fakes.deepgram import AUDIO, CLOSE, LOUD, QUIET, refusal, served
from tests.fakes.front import Front

pytestmark = pytest.mark.unit
ROUGH = (Word("Ten", "Ten ", 0, 640, 0.9), Word("green", "green.", 640, 1_280, 0.7))
FINE = (Word("Ten", "Ten ", 80, 400, 0.9), Word("green", "green.", 480, 960, 0.7))
FINAL = SegmentFinal(0, "Ten green.", 0, 1_280, "English", ResumePoint(1), words=ROUGH)
LISTENING = ListenOptions(encoding="pcm_s16le", sample_rate=16_000, partials=True)
PARTIAL = SegmentPartial(1, "", "bottles", 1_920, "English", ResumePoint(1))


# ── finals that wait ────────────────────────────────────────────────────────


def test_a_final_waits_for_its_words_and_what_follows_waits_behind_it() -> None:
    held = HeldFinals(words=True)
    assert held.add(FINAL) == []
    assert held.add(PARTIAL) == []
    told = held.add(SegmentWords(0, FINE, "aligned"))
    assert told == [replace(FINAL, words=FINE, word_source="aligned"), PARTIAL]
    assert held.add(PARTIAL) == [PARTIAL]


@pytest.mark.parametrize(
    "words",
    [
        SegmentWords(0, (), None, "unavailable"),
        SegmentWords(0, (), None, "processor_lost"),
        SegmentWords(0, ROUGH, "commit_grid", "language"),
    ],
)
def test_a_final_whose_words_are_missing_has_the_times_of_decodes(words: SegmentWords) -> None:
    held = HeldFinals(words=True)
    held.add(FINAL)
    assert held.add(words) == [FINAL]


def test_finals_keep_their_order_whichever_words_come_first() -> None:
    held, second = HeldFinals(words=True), replace(FINAL, segment=1)
    assert held.add(FINAL) + held.add(second) + held.add(SegmentWords(1, FINE, "aligned")) == []
    told = held.add(SegmentWords(0, (), None, "deadline"))
    assert told == [FINAL, replace(second, words=FINE, word_source="aligned")]


def test_a_session_that_fails_tells_the_text_that_it_has() -> None:
    held = HeldFinals(words=True)
    held.add(FINAL)
    held.add(PARTIAL)
    assert held.rest() == [FINAL, PARTIAL]
    assert held.rest() == []


def test_a_final_without_text_waits_for_nothing() -> None:
    silent = SegmentFinal(0, "", 0, 10, "", ResumePoint(1))
    assert HeldFinals(words=True).add(silent) == [silent]


async def test_text_is_told_though_no_words_come() -> None:
    client = await served(LOUD, QUIET, CLOSE, query=f"{AUDIO}&word_times=aligned")
    assert client.kinds == ["Results", "Metadata"]
    (told,) = client.sent[0]["channel"]["alternatives"]
    assert (told["transcript"], client.sent[0]["word_times"]) == ("word", "grid")


# ── asking ──────────────────────────────────────────────────────────────────


def riva(**custom: str) -> RecognitionOptions:
    config = message("nvidia.riva.asr.RecognitionConfig")(custom_configuration=custom)
    return parse_config(config, streaming=True)


def test_times_of_the_aligner_are_asked_for() -> None:
    assert parse_options(AUDIO).words == "grid"
    assert parse_options(f"{AUDIO}&word_times=aligned").words == "aligned"
    assert parse_streaming("sample_rate=16000&word_times=aligned", 500).words == "aligned"
    assert (riva().words, riva(word_times="aligned").words) == ("grid", "aligned")


def test_other_times_are_refused() -> None:
    with pytest.raises(
        UnsupportedValue, match="word_times 'exact' cannot be used: it must be aligned or grid"
    ):
        parse_options(f"{AUDIO}&word_times=exact")
    with pytest.raises(BadRequest, match="word_times 'exact'"):
        riva(word_times="exact")


@pytest.mark.parametrize("path", [f"/v1/listen?{AUDIO}", "/v3/ws?sample_rate=16000"])
async def test_a_deployment_without_an_aligner_refuses_its_times(path: str) -> None:
    front = Front()
    async with front.serving():
        code, body = await refusal(front, f"{path}&word_times=aligned")
    assert code == (3006 if path.startswith("/v3") else 1008)
    assert "no aligner" in str(body)


# ── telling ─────────────────────────────────────────────────────────────────


def test_deepgrams_results_have_words_in_seconds() -> None:
    told = Utterances(LISTENING, DeepgramReplies("request", "demo"))
    (final,) = told.on_final(FINAL)
    (alternative,) = final["channel"]["alternatives"]
    assert alternative["confidence"] == 0.8
    assert alternative["words"] == [
        {"word": "ten", "start": 0.0, "end": 0.64, "confidence": 0.9, "punctuated_word": "Ten"},
        {
            **{"word": "green", "start": 0.64, "end": 1.28, "confidence": 0.7},
            "punctuated_word": "green.",
        },
    ]
    words = (Word("bottles", "bottles", 1_280, 1_920, 0.5),)
    (partial,) = told.on_partial(replace(PARTIAL, words=words))
    (alternative,) = partial["channel"]["alternatives"]
    assert (alternative["words"][0]["start"], alternative["confidence"]) == (1.28, 0.5)


@pytest.mark.parametrize(("source", "times"), [("aligned", "aligned"), ("commit_grid", "grid")])
def test_who_asked_for_the_aligners_times_hears_whose_they_are(
    source: WordSource, times: str
) -> None:
    final = replace(FINAL, word_source=source)
    cases: list[tuple[Any, str | None]] = [("aligned", times), ("grid", None)]
    for asked, expected in cases:
        options = replace_options(LISTENING, words=asked)
        (result,) = Utterances(options, DeepgramReplies("request", "demo")).on_final(final)
        assert result.get("word_times") == expected
        streaming = parse_streaming(f"sample_rate=16000&word_times={asked}", 500)
        turns = Turns(streaming.policy, StreamingReplies("sess_1", "demo", streaming))
        assert turns.on_final(final)[-1].get("word_times") == expected


def test_the_words_of_a_turn_have_times_and_say_which_will_not_change() -> None:
    first = TurnSegment("Ten green.", 0.0, 1.28, "English", words=ROUGH)
    rest = (Word("bottles", " bottles ", 1_280, 1_600, 0.5), Word("han", "han", 1_600, 1_920))
    spoken = TurnSegment("bottles han", 1.28, 1.92, "English", 9, is_final=False, words=rest)
    turn = Turn(0, (first, spoken), 0.0, 1.92)
    assert [
        (w["text"], w["start"], w["end"], w["confidence"], w["word_is_final"])
        for w in words_of(turn)
    ] == [
        ("Ten", 0, 640, 0.9, True),
        ("green.", 640, 1_280, 0.7, True),
        ("bottles", 1_280, 1_600, 0.5, True),
        ("han", 1_600, 1_920, 0.0, False),
    ]
    flux = FluxReplies("sess_1").turn("updated", turn)[0]["words"]
    assert [word["word"] for word in flux] == ["Ten", "green.", "bottles", "han"]
    assert [word["confidence"] for word in flux] == [0.9, 0.7, 0.5, 0.0]


@pytest.mark.parametrize("asked", [False, True])
def test_rivas_finals_have_words_if_asked_for_and_confidence(asked: bool) -> None:
    data = Results(None, asked).final(FINAL)
    (result,) = message("nvidia.riva.asr.StreamingRecognizeResponse").FromString(data).results
    (alternative,) = result.alternatives
    assert alternative.transcript == "Ten green. "
    assert alternative.confidence == pytest.approx(0.8)
    words = [(word.word, word.start_time, word.end_time) for word in alternative.words]
    assert words == ([("Ten", 0, 640), ("green.", 640, 1_280)] if asked else [])
    assert [round(word.confidence, 3) for word in alternative.words] == [0.9, 0.7] * asked
