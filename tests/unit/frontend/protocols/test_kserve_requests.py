"""Inference requests: their tensors and parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from auricle.core.errors import BadRequest, Overloaded
from auricle.frontend.protocols.kserve import messages as answers
from auricle.frontend.protocols.kserve.messages import (
    SpeechOptions,
    audio_of,
    parse_request,
    pcm_of,
    unchecked_request,
)
from auricle.frontend.recordings.transcriber import RecordingSegment
from auricle.frontend.transport.grpc.schema import message
from tests.fakes.kserve import is_final, request, text_of

pytestmark = pytest.mark.unit
SAMPLES = np.array([0, 1, -32_768, 32_767], "<i2")
FLOATS = (SAMPLES / 32_768).astype("<f4")


def pcm(given: Any) -> bytes:
    return pcm_of(*audio_of(given))


@pytest.mark.parametrize("shape", [[4], [1, 4]])
def test_audio_is_samples_of_either_kind(shape: list[int]) -> None:
    assert pcm(request(SAMPLES.tobytes(), shape=shape)) == SAMPLES.tobytes()
    assert pcm(request(FLOATS.tobytes(), datatype="FP32", shape=shape)) == SAMPLES.tobytes()
    assert pcm(request(b"RIFF", datatype="BYTES", shape=[1])) == b"RIFF"
    assert pcm(request(b"")) == b""


def test_audio_may_be_fields_of_the_message() -> None:
    for datatype, content in (
        ("INT16", {"int_contents": SAMPLES.tolist()}),
        ("FP32", {"fp32_contents": FLOATS.tolist()}),
        ("BYTES", {"bytes_contents": [SAMPLES.tobytes()]}),
    ):
        tensor = {"name": "AUDIO", "datatype": datatype, "contents": content}
        tensor["shape"] = [1 if datatype == "BYTES" else 4]
        given = message("inference.ModelInferRequest")(inputs=[tensor])
        assert pcm(given) == SAMPLES.tobytes()


def test_what_is_too_loud_is_clipped() -> None:
    loud = np.array([1.5, -1.5], "<f4").tobytes()
    assert pcm(request(loud, datatype="FP32")) == np.array([32_767, -32_768], "<i2").tobytes()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"audio": None}, "the input AUDIO is missing"),
        ({"datatype": "FP64"}, "datatype 'FP64' of AUDIO cannot be used: it must be FP32, INT16"),
        ({"audio": b"abc"}, "it must have a whole number of INT16 elements"),
        ({"shape": [2, 2]}, r"shape \[2, 2\] of AUDIO .* must be \[4\] or \[1, 4\]"),
        ({"shape": [-1]}, r"shape \[-1\] of AUDIO cannot be used"),
        ({"shape": [1, 1, 4]}, r"shape \[1, 1, 4\] of AUDIO cannot be used"),
        ({"audio": b"\0\0\xc0\x7f", "datatype": "FP32"}, "values that are not finite numbers"),
    ],
)
def test_audio_that_cannot_be_used_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        pcm(request(**{"audio": SAMPLES.tobytes()} | given))


def changed(change: str) -> Any:
    given = request(SAMPLES.tobytes())
    if change == "another":
        given.inputs.add(name="WAV_LENS", datatype="INT32", shape=[1])
    elif change == "twice":
        given.inputs.append(given.inputs[0])
    elif change == "shared":
        given.inputs[0].parameters["shared_memory_region"].string_param = "region"
    elif change == "more":
        given.raw_input_contents.append(b"")
    elif change == "large":
        del given.raw_input_contents[:]
        given.inputs[0].contents.int_contents.append(40_000)
    else:
        given.inputs[0].datatype = "BYTES"
    return given


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("another", "the input 'WAV_LENS' is not supported; the only one is AUDIO"),
        ("twice", "the input AUDIO was given 2 times"),
        ("shared", "parameter 'shared_memory_region' of AUDIO .* send the samples themselves"),
        ("more", "raw_input_contents has more entries than there are inputs"),
        ("large", "it has values that are not INT16"),
        ("bytes", "it must be one element, with its length before it"),
    ],
)
def test_tensors_that_cannot_be_used_are_named(change: str, said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        pcm(changed(change))


def test_parameters_are_options() -> None:
    asked = parse_request(
        request(
            sequence_id=7,
            sequence_start=True,
            sample_rate=8_000,
            language="en-US",
            context="Ada",
            min_silence_ms=300,
            partials=False,
            timeout=5,
            triton_enable_empty_final_response=True,
            outputs=["TEXT"],
        )
    )
    assert asked.options == SpeechOptions(8_000, "en", "Ada", 300, partials=False)
    assert (asked.sequence, asked.starts, asked.ends) == (7, True, False)
    assert (asked.outputs, asked.warnings) == (("TEXT",), ("timeout has no effect",))


def test_without_parameters_there_is_no_sequence() -> None:
    asked = parse_request(request())
    assert (asked.sequence, asked.options, asked.warnings) == (None, SpeechOptions(), ())
    assert asked.outputs == ("TEXT", "IS_FINAL")
    assert parse_request(request(sequence_id=0)).sequence is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sample_rate": 100}, "sample_rate 100 cannot be used: it must be a whole number from 4"),
        ({"sample_rate": True}, "sample_rate True cannot be used"),
        ({"language": 1}, "language 1 cannot be used: it must be text"),
        ({"language": "x" * 33}, "language has 33 characters, at most 32"),
        ({"context": "x" * 2_001}, "context has 2001 characters, at most 2000"),
        ({"min_silence_ms": 50}, "min_silence_ms 50 cannot be used: .* from 100 to 10000"),
        ({"partials": 1}, "partials 1 cannot be used: it must be true or false"),
        ({"sequence_id": True}, "sequence_id True cannot be used: it must be a whole number or"),
        ({"sequence_start": 1}, "sequence_start 1 cannot be used: it must be true or false"),
        ({"sequence_id": 7, "language": "en"}, "language can be sent with sequence_start only"),
        ({"beam": 4}, "beam is not supported; supported: context, language, .*sequence_id"),
        ({"outputs": ["TRANSCRIPTS"]}, "the output 'TRANSCRIPTS' is not supported; supported: TEX"),
        ({"fields": {"model_version": "2"}}, "model_version '2' does not exist; there is '1'"),
        ({"fields": {"id": "x" * 513}}, "id has 513 characters, at most 512"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        parse_request(request(**given))


def test_of_a_request_that_is_wrong_the_sequence_is_known() -> None:
    assert unchecked_request(request(sequence_id=7, beam=4)).sequence == 7
    assert unchecked_request(request(sequence_id="seven")).sequence == "seven"
    assert unchecked_request(request(sequence_id=True)).sequence is None


def test_a_refusal_says_when_to_come_again() -> None:
    asked = parse_request(request(sequence_id="seven", sequence_start=True))
    data = answers.failure_response(asked, Overloaded("all 1 sessions are in use"))
    told = message("inference.ModelStreamInferResponse").FromString(data)
    assert told.error_message == "all 1 sessions are in use; come again in 5 s"
    parameters = told.infer_response.parameters
    assert parameters["code"].string_param == "overloaded"
    assert parameters["retry_after"].int64_param == 5
    assert parameters["sequence_id"].string_param == "seven"


def test_an_answer_names_any_sequence_that_there_can_be() -> None:
    for kind, sequence in (("int64_param", -1), ("uint64_param", 2**64 - 1)):
        given = request()
        setattr(given.parameters["sequence_id"], kind, sequence)
        asked = parse_request(given)
        data = answers.text_response(asked, "ten", is_final=True, last=True, warnings=())
        told = message("inference.ModelStreamInferResponse").FromString(data)
        named = told.infer_response.parameters["sequence_id"]
        assert (named.WhichOneof("parameter_choice"), getattr(named, kind)) == (kind, sequence)


def test_the_text_of_a_recording_is_that_of_all_its_segments() -> None:
    data = answers.recording_response(
        parse_request(request()),
        [
            RecordingSegment("ten", 0, 1, "English"),
            RecordingSegment("green", 1, 2, "English"),
        ],
    )
    told = message("inference.ModelInferResponse").FromString(data)
    assert (text_of(told), is_final(told), told.id, told.model_version) == (
        "ten green",
        True,
        "r1",
        "1",
    )
