"""Riva's RecognitionConfig: options that affect text are applied or rejected, others accepted."""

from __future__ import annotations

from typing import Any

import pytest

from auricle.audio.wav import Opening, WavHeader, is_wav, wav_header
from auricle.core.errors import BadRequest, ProtocolError
from auricle.frontend.protocols.riva.options import RecognitionOptions, audio_format, parse_config
from auricle.frontend.protocols.riva.service import Results
from auricle.frontend.transport.grpc.schema import message, parsed
from auricle.protocol.sessions import ResumePoint, SegmentFinal, SegmentPartial
from tests.fakes.riva import config

pytestmark = pytest.mark.unit
LINEAR_PCM, FLAC, MULAW, OGGOPUS, ALAW = 1, 2, 3, 4, 20
AUDIO = {"encoding": LINEAR_PCM, "sample_rate_hertz": 16_000}


def options(*, streaming: bool = True, **fields: Any) -> RecognitionOptions:
    return parse_config(config(**AUDIO | fields), streaming=streaming)


def test_audio_alone_is_enough() -> None:
    assert options() == RecognitionOptions("pcm_s16le", 16_000)
    assert parse_config(config(), streaming=True) == RecognitionOptions(None)


@pytest.mark.parametrize("encoding", [FLAC, OGGOPUS])
def test_a_recording_may_be_compressed(encoding: int) -> None:
    assert options(encoding=encoding, streaming=False).encoding is None


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"encoding": FLAC}, "encoding FLAC cannot be used: it must be LINEAR_PCM, MULAW or ALAW"),
        ({"encoding": 7}, "encoding 7 cannot be used"),
        ({"sample_rate_hertz": 100}, "sample_rate_hertz 100 .* a whole number from 4000 to"),
        ({"sample_rate_hertz": -1}, "sample_rate_hertz -1 cannot be used"),
        ({"profanity_filter": True}, "profanity_filter is not supported: the model transcribes"),
        ({"enable_separate_recognition_per_channel": True}, "make a call for each channel"),
        ({"custom_configuration": {"task": "translate"}}, "custom_configuration 'task' is not"),
        ({"speech_contexts": [{"phrases": ["a"], "boost": -1.0}]}, "cannot be made less likely"),
        ({"speech_contexts": [{"boost": float("nan")}]}, "cannot be made less likely"),
        ({"speech_contexts": [{"phrases": ["x" * 2001]}]}, "speech_contexts has 2001 characters"),
        ({"speech_contexts": [{"phrases": ["a\0b"]}]}, "speech_contexts has a null character"),
        ({"endpointing_config": {"stop_history": 10_001}}, "stop_history 10001 .* from 0 to 10000"),
        ({"endpointing_config": {"stop_history": -1}}, "stop_history -1 cannot be used"),
        ({"language_code": "x" * 33}, "language_code has 33 characters, at most 32"),
        ({"model": "x" * 257}, "model has 257 characters, at most 256"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        options(**fields)


@pytest.mark.parametrize(
    ("fields", "warning"),
    [
        ({"verbatim_transcripts": True}, "verbatim_transcripts has no effect"),
        ({"enable_automatic_punctuation": True}, "enable_automatic_punctuation has no effect"),
        (
            {"endpointing_config": {"stop_history_eou": 0}},
            "endpointing_config.stop_history_eou has no effect",
        ),
        (
            {"speech_contexts": [{"phrases": ["Ada"], "boost": 4.0}]},
            "boost has no effect: all phrases are context alike",
        ),
    ],
)
def test_what_has_no_effect_is_taken_and_named(fields: dict[str, Any], warning: str) -> None:
    assert options(**fields).warnings == (warning,)


def test_live_calls_may_have_speakers_and_recordings_may_not() -> None:
    asked = config(diarization_config={"enable_speaker_diarization": True, "max_speaker_count": 2})
    live = parse_config(asked, streaming=True)
    assert (live.diarize, live.max_speakers, live.warnings) == (True, 2, ())
    recorded = parse_config(asked, streaming=False)
    assert (recorded.diarize, recorded.warnings) == (False, ("diarization_config has no effect",))
    assert not parse_config(config(), streaming=True).diarize
    with pytest.raises(BadRequest, match="max_speaker_count 17 cannot be used"):
        options(diarization_config={"max_speaker_count": 17})


def test_one_alternative_is_never_more_than_asked_for() -> None:
    assert options(max_alternatives=5).warnings == ()


def test_phrases_are_context() -> None:
    phrases = [{"phrases": ["Ada", "Grace"]}, {"phrases": ["Hedy"]}]
    assert options(speech_contexts=phrases).context == "Ada, Grace, Hedy"


@pytest.mark.parametrize(
    ("code", "language"), [("en-US", "en"), ("de", "de"), ("multi", None), ("", None)]
)
def test_a_language_has_no_region(code: str, language: str | None) -> None:
    assert options(language_code=code).language == language


def test_speech_ends_after_the_silence_that_was_asked_for() -> None:
    assert options(endpointing_config={"stop_history": 800}).silence_ms == 800
    short = options(endpointing_config={"stop_history": 20})
    assert short.silence_ms == 100
    assert short.warnings == (
        "endpointing_config.stop_history 20 is too short: speech ends after 100 ms of silence",
    )


# ── the format of the audio ─────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("fields", "header", "found"),
    [
        (AUDIO, None, ("pcm_s16le", 16_000)),
        ({"encoding": MULAW}, None, ("pcm_mulaw", 8_000)),
        ({"encoding": ALAW, "sample_rate_hertz": 16_000}, None, ("pcm_alaw", 16_000)),
        ({}, WavHeader("pcm_s16le", 44_100, 10), ("pcm_s16le", 44_100)),
        (AUDIO, WavHeader("pcm_s16le", 16_000, None), ("pcm_s16le", 16_000)),
    ],
)
def test_the_config_or_a_header_says_what_the_audio_is(
    fields: dict[str, Any], header: WavHeader | None, found: tuple[str, int]
) -> None:
    assert audio_format(parse_config(config(**fields), streaming=True), header) == found


@pytest.mark.parametrize(
    ("fields", "header", "said"),
    [
        ({}, None, "encoding is not specified, and the audio has no WAV header; it must be LINEAR"),
        ({"encoding": LINEAR_PCM}, None, "sample_rate_hertz is missing; LINEAR_PCM without a WAV"),
        (AUDIO | {"audio_channel_count": 2}, None, "audio_channel_count 2 cannot be used"),
        (AUDIO, WavHeader("pcm_s16le", 8_000, 9), "is 16000, but 8000 in the WAV header"),
        ({"encoding": MULAW}, WavHeader("pcm_s16le", 8_000, 9), "but pcm_s16le in the WAV header"),
    ],
)
def test_a_header_that_says_something_else_is_refused(
    fields: dict[str, Any], header: WavHeader | None, said: str
) -> None:
    with pytest.raises(BadRequest, match=said):
        audio_format(parse_config(config(**fields), streaming=True), header)


@pytest.mark.parametrize("encoding", ["pcm_s16le", "pcm_mulaw", "pcm_alaw"])
@pytest.mark.parametrize("cut", [1, 5, 44, 1000])
def test_a_header_is_read_however_it_is_cut(encoding: str, cut: int) -> None:
    data = wav_header(encoding, 8_000, 60) + bytes(range(60))
    assert is_wav(data)
    opening, found = Opening(), None
    at = 0
    while found is None:
        found = opening.push(data[at : at + cut])
        at += cut
    header, audio = found
    assert header == WavHeader(encoding, 8_000, 60)
    assert audio + data[at:] == bytes(range(60))
    assert not opening.begun


def test_chunks_before_the_audio_are_left_out() -> None:
    head = wav_header("pcm_s16le", 16_000, 4)
    data = head[:12] + b"LIST\x03\0\0\0abc\0" + head[12:] + b"\1\2\3\4"
    assert Opening().push(data) == (WavHeader("pcm_s16le", 16_000, 4), b"\1\2\3\4")


def test_samples_are_no_header() -> None:
    assert Opening().push(b"RIF\1" + bytes(100)) == (None, b"RIF\1" + bytes(100))
    assert not is_wav(b"RIFF")


def test_a_file_that_is_written_while_it_is_sent_has_no_size() -> None:
    head = wav_header("pcm_s16le", 16_000, 0xFFFFFFFF - 40)[:-4] + b"\xff" * 4
    found = Opening().push(head)
    assert found == (WavHeader("pcm_s16le", 16_000, None), b"")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ((22, b"\2\0"), "has 2 channels: live audio must have one"),
        ((20, b"\3\0"), "has format 3 of 16 bits: live audio must be 16-bit PCM"),
        ((12, b"xxxx"), "has no valid format chunk"),
        ((16, b"\xff\xff\xff\0"), "has more than 65536 bytes"),
    ],
)
def test_another_kind_of_file_is_refused(change: tuple[int, bytes], said: str) -> None:
    data = bytearray(wav_header("pcm_s16le", 16_000, 4))
    at, by = change
    data[at : at + len(by)] = by
    with pytest.raises(BadRequest, match=said):
        Opening().push(bytes(data))


# ── messages ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("data", [b"\xff\xff", b"\x0a\x05ab", b"\x07", b"\xff" * 70_000])
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="the message is not a valid RecognizeRequest"):
        parsed("nvidia.riva.asr.RecognizeRequest", data, bulk=2)


def test_a_message_is_small_beside_its_audio() -> None:
    kind = "nvidia.riva.asr.RecognizeRequest"
    audio = message(kind)(audio=bytes(200_000)).SerializeToString()
    assert len(parsed(kind, audio, bulk=2).audio) == 200_000
    phrases = config(speech_contexts=[{"phrases": ["x" * 1000] * 70}])
    with pytest.raises(ProtocolError, match="at most 65536 bytes, not counting its audio"):
        parsed(kind, message(kind)(config=phrases).SerializeToString(), bulk=2)
    with pytest.raises(ProtocolError, match="at most 1000 fields"):
        parsed(kind, audio + b"\x0a\x00" * 1000, bulk=2)


def results(data: bytes | None) -> list[tuple[str, bool, float, float]]:
    assert data is not None
    response = message("nvidia.riva.asr.StreamingRecognizeResponse").FromString(data)
    return [
        (
            result.alternatives[0].transcript,
            result.is_final,
            round(result.stability, 3),
            round(result.audio_processed, 3),
        )
        for result in response.results
    ]


def test_committed_text_is_a_stable_result_before_the_rest() -> None:
    made, resume = Results(None), ResumePoint()
    both = made.partial(SegmentPartial(0, "ten green", " bottles", 1_280, "English", resume))
    assert results(both) == [("ten green", False, 0.9, 1.28), (" bottles", False, 0.1, 1.28)]
    assert results(made.partial(SegmentPartial(0, "", "ten", 640, "English", resume))) == [
        ("ten", False, 0.1, 0.64)
    ]
    assert made.partial(SegmentPartial(0, "", "", 640, "English", resume)) is None


def test_final_text_ends_with_a_space() -> None:
    made = Results("call 1")
    data = made.final(SegmentFinal(0, "ten green bottles", 100, 1_900, "English", ResumePoint()))
    assert results(data) == [("ten green bottles ", True, 1.0, 1.9)]
    assert message("nvidia.riva.asr.StreamingRecognizeResponse").FromString(data).id.value == (
        "call 1"
    )
    assert made.final(SegmentFinal(0, "", 0, 10, "English", ResumePoint())) is None
