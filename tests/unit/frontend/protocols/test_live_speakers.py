"""Speakers of words in live protocols that send them with the text: Deepgram, AssemblyAI, Riva."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest
from msgspec.structs import replace

from auricle.core.errors import BadRequest
from auricle.frontend.link.words import HeldFinals, Text, speakers_of
from auricle.frontend.protocols.assemblyai.options import StreamingOptions
from auricle.frontend.protocols.assemblyai.options import parse_options as parse_streaming
from auricle.frontend.protocols.assemblyai.session import AssemblyReplies, assemblyai_protocol
from auricle.frontend.protocols.deepgram.live import Utterances
from auricle.frontend.protocols.deepgram.messages import DeepgramReplies
from auricle.frontend.protocols.deepgram.options import ListenOptions, parse_options
from auricle.frontend.protocols.riva.service import Results
from auricle.frontend.session.turns import Turns
from auricle.frontend.transport.grpc.schema import message
from auricle.protocol.annotation import SegmentSpeakers
from auricle.protocol.sessions import (
    OpenSession,
    ResumePoint,
    SegmentFinal,
    SegmentPartial,
    SegmentWords,
    SessionEvent,
)
from auricle.protocol.stream import SpeakerPart, Word
from auricle_testing.fakes import Processor
from auricle_testing.server import ROOT
from tests.fakes.deepgram import AUDIO, CLOSE, LOUD, QUIET, served

pytestmark = pytest.mark.unit
WORDS = (
    Word("Did", "Did ", 0, 300, 0.9),
    Word("you", "you? ", 300, 600, 0.8),
    Word("No", "No.", 700, 1_000, 0.7),
)
FINAL = SegmentFinal(0, "Did you? No.", 0, 1_000, "English", ResumePoint(1), words=WORDS)
PARTIAL = SegmentPartial(1, "", "so", 1_920, "English", ResumePoint(1))
SPEAKERS = SegmentSpeakers(
    0, (SpeakerPart(1, 0, 600, "Did you? "), SpeakerPart(2, 700, 1_000, "No.")), "commit_grid"
)
MISSING = SegmentSpeakers(0, missing="deadline")
SPOKEN = replace(FINAL, speakers=SPEAKERS)
MODEL = ROOT / "models/speakers"
STREAM = "sample_rate=16000"


# ── finals that wait ────────────────────────────────────────────────────────


def test_a_final_waits_for_its_speakers_and_what_follows_waits_behind_it() -> None:
    held = HeldFinals(speakers=True)
    assert held.add(FINAL) + held.add(PARTIAL) == []
    assert held.add(SPEAKERS) == [SPOKEN, PARTIAL]


@pytest.mark.parametrize("words_first", [True, False])
def test_a_final_waits_for_words_and_for_speakers(words_first: bool) -> None:
    held = HeldFinals(words=True, speakers=True)
    held.add(FINAL)
    words = SegmentWords(0, WORDS[:1], "aligned")
    first, second = (words, SPEAKERS) if words_first else (SPEAKERS, words)
    assert held.add(first) == []
    told = replace(FINAL, words=WORDS[:1], word_source="aligned", speakers=SPEAKERS)
    assert held.add(second) == [told]


def test_annotations_that_were_not_requested_are_not_awaited() -> None:
    held = HeldFinals(words=True)
    held.add(FINAL)
    assert held.add(SPEAKERS) == []
    assert held.add(SegmentWords(0, (), None, "deadline")) == [FINAL]


def test_a_final_whose_speakers_are_missing_is_sent_without_them() -> None:
    held = HeldFinals(speakers=True)
    held.add(FINAL)
    (told,) = held.add(MISSING)
    assert told == replace(FINAL, speakers=MISSING)
    assert speakers_of(cast(SegmentFinal, told)) == (None, None, None)


def test_each_word_has_the_speaker_in_whose_part_it_begins() -> None:
    assert speakers_of(SPOKEN) == (1, 1, 2)
    split = replace(
        SPEAKERS, parts=(SpeakerPart(3, 0, 1, "Did y"), SpeakerPart(1, 1, 2, "ou? No."))
    )
    assert speakers_of(replace(FINAL, speakers=split)) == (3, 3, 1)
    assert speakers_of(FINAL) == (None, None, None)


def test_words_that_are_not_known_have_no_speakers() -> None:
    assert speakers_of(replace(SPOKEN, words=())) == ()


# ── asking ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("query", "wanted", "warned"),
    [
        ("", False, []),
        ("diarize=true", True, []),
        ("diarize=false", False, []),
        ("diarize_model=latest", True, []),
        ("diarize_model=v1", True, ["diarize_model"]),
        ("diarize_model=false&diarize=true", True, []),
        ("diarize=true&diarize_version=latest", True, ["diarize_version"]),
    ],
)
def test_deepgrams_clients_ask_for_speakers(query: str, wanted: bool, warned: list[str]) -> None:
    options = parse_options(f"{AUDIO}&{query}" if query else AUDIO)
    assert options.diarize == wanted
    assert [warning.split(" ")[0] for warning in options.warnings] == warned


def test_a_switch_that_is_none_is_refused() -> None:
    with pytest.raises(BadRequest, match="diarize 'maybe' cannot be used"):
        parse_options(f"{AUDIO}&diarize=maybe")
    with pytest.raises(BadRequest, match="speaker_labels 'maybe' cannot be used"):
        parse_streaming(f"{STREAM}&speaker_labels=maybe", 500)


def test_assemblyais_clients_ask_for_speakers_and_say_how_many_at_most() -> None:
    options = parse_streaming(f"{STREAM}&speaker_labels=true&max_speakers=2", 500)
    assert (options.diarize, options.max_speakers, options.warnings) == (True, 2, ())
    alone = parse_streaming(f"{STREAM}&max_speakers=2", 500)
    assert alone.warnings == ("max_speakers has no effect without speaker_labels",)
    assert not alone.diarize


@pytest.mark.parametrize("number", ["0", "17", "two"])
def test_another_number_of_speakers_is_refused(number: str) -> None:
    with pytest.raises(BadRequest, match=r"max_speakers .* must be a whole number from 1 to 16"):
        parse_streaming(f"{STREAM}&speaker_labels=true&max_speakers={number}", 500)


@pytest.mark.parametrize(
    ("query", "protocol", "option"),
    [
        (f"{AUDIO}&diarize=true", None, "diarize"),
        (f"{STREAM}&speaker_labels=true", assemblyai_protocol, "speaker_labels"),
    ],
)
async def test_a_server_without_a_speaker_model_warns(
    query: str, protocol: Any, option: str
) -> None:
    end = CLOSE if protocol is None else '{"type": "Terminate"}'
    chosen = {} if protocol is None else {"protocol": protocol}
    client = await served(LOUD, QUIET, end, query=query, **chosen)
    warnings = [text for message in client.sent for text in message.get("warnings", [])]
    assert len(warnings) == 1
    assert warnings[0].startswith(f"{option} has no effect: this deployment has no speaker model")
    assert "speaker" not in str(client.sent[1:-1])


class Diarizing(Processor):
    """A processor whose finals are followed by their speakers; it notes how sessions are opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[OpenSession] = []

    async def stream(
        self, message: OpenSession, reply: object, instance: int
    ) -> AsyncGenerator[SessionEvent, None]:
        self.opened.append(message)
        async for event in super().stream(message, reply, instance):
            yield event
            if isinstance(event, SegmentFinal) and event.text:
                yield replace(MISSING, segment=event.segment)


async def test_the_session_is_opened_with_speakers_and_their_absence_is_no_secret() -> None:
    query, processor = f"{STREAM}&speaker_labels=true&max_speakers=3", Diarizing()
    client = await served(
        *(LOUD, QUIET, '{"type": "Terminate"}'),
        query=query,
        protocol=assemblyai_protocol,
        processor=processor,
        speaker_model=MODEL,
    )
    (opened,) = processor.opened
    assert (opened.diarize, opened.max_speakers) == (True, 3)
    (ended,) = [message for message in client.sent if message.get("end_of_turn")]
    assert (ended["transcript"], ended["speaker_label"]) == ("word", None)
    assert "speakers are missing: deadline" in str(client.sent)


async def test_deepgrams_metadata_counts_the_results_without_speakers() -> None:
    query, processor = f"{AUDIO}&diarize=true", Diarizing()
    client = await served(
        *(LOUD, QUIET, CLOSE), query=query, processor=processor, speaker_model=MODEL
    )
    assert client.kinds == ["Results", "Metadata"]
    assert client.sent[-1]["warnings"] == ["1 results have no speakers: deadline"]


# ── telling ─────────────────────────────────────────────────────────────────


def utterances() -> Utterances:
    options = ListenOptions(encoding="pcm_s16le", sample_rate=16_000, diarize=True)
    return Utterances(options, DeepgramReplies("request", "demo"))


def test_deepgrams_words_have_speakers_counted_from_0() -> None:
    (result,) = utterances().on_final(SPOKEN)
    (alternative,) = result["channel"]["alternatives"]
    assert [(w["punctuated_word"], w["speaker"]) for w in alternative["words"]] == [
        *(("Did", 0), ("you?", 0), ("No.", 1)),
    ]


def test_deepgrams_results_without_speakers_are_counted_by_reason() -> None:
    told = utterances()
    (result,) = told.on_final(replace(FINAL, speakers=MISSING))
    (alternative,) = result["channel"]["alternatives"]
    assert all("speaker" not in word for word in alternative["words"])
    told.on_final(replace(FINAL, segment=1, speakers=replace(MISSING, segment=1)))
    assert told.unknown_speakers == {"deadline": 2}


def test_rivas_words_have_the_tags_of_their_speakers_and_0_if_they_are_missing() -> None:
    response = message("nvidia.riva.asr.StreamingRecognizeResponse")
    for final, tags in ((SPOKEN, [1, 1, 2]), (replace(FINAL, speakers=MISSING), [0, 0, 0])):
        (result,) = response.FromString(Results(None, word_offsets=True).final(final)).results
        assert [word.speaker_tag for word in result.alternatives[0].words] == tags


def streaming(query: str = "&speaker_labels=true") -> tuple[StreamingOptions, Turns]:
    options = parse_streaming(f"{STREAM}{query}", 500)
    return options, Turns(options.policy, AssemblyReplies("sess_1", "demo", options))


def turns_of(*finals: Text, query: str = "&speaker_labels=true") -> list[dict[str, Any]]:
    """The messages of a turn with these finals."""
    _, turns = streaming(query)
    sent: list[dict[str, Any]] = []
    for final in finals:
        told = turns.on_final(final) if isinstance(final, SegmentFinal) else turns.on_partial(final)
        sent += told
    return [message for message in [*sent, *turns.closed()] if message["type"] == "Turn"]


def test_assemblyais_turns_name_the_speaker_of_most_of_it_and_of_each_final_word() -> None:
    *_, ended = turns_of(SPOKEN)
    assert ended["end_of_turn"] is True
    assert ended["speaker_label"] == "A"
    assert [(w["text"], w["speaker"]) for w in ended["words"]] == [
        *(("Did", "A"), ("you?", "A"), ("No.", "B")),
    ]


def test_a_word_that_may_change_has_no_speaker_yet() -> None:
    words = (Word("so", "so", 1_280, 1_920),)
    first, *_ = turns_of(replace(PARTIAL, segment=0, words=words))
    assert first["speaker_label"] is None
    assert "speaker" not in first["words"][0]


def test_a_turn_whose_speakers_are_missing_says_why_once() -> None:
    second = replace(FINAL, segment=1, start_ms=1_000, end_ms=2_000, speakers=MISSING)
    messages = turns_of(replace(FINAL, speakers=MISSING), second)
    assert [message.get("warnings") for message in messages] == [
        ["speakers are missing: deadline"],
        *[None] * (len(messages) - 1),
    ]
    assert messages[-1]["speaker_label"] is None


def test_who_did_not_ask_gets_no_speakers() -> None:
    *_, ended = turns_of(FINAL, query="")
    assert "speaker_label" not in ended
    assert all("speaker" not in word for word in ended["words"])
