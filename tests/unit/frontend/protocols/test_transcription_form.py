"""The fields of a transcription request: accepted ones, and errors that name rejected ones."""

import pytest

from auricle.core.errors import UnsupportedValue
from auricle.frontend.protocols.transcriptions.form import ChunkingStrategy, parse_form

pytestmark = pytest.mark.unit
MODEL = ("model", "demo")


def test_only_the_model_must_be_given() -> None:
    form = parse_form([MODEL])
    assert (form.model, form.response_format, form.stream) == ("demo", "json", False)


def test_all_fields_of_a_client_are_taken() -> None:
    form = parse_form(
        [
            MODEL,
            ("language", "en"),
            ("prompt", "names: Ada"),
            ("response_format", "verbose_json"),
            ("temperature", "0"),
            ("stream", "true"),
            ("timestamp_granularities[]", "segment"),
        ]
    )
    assert (form.language, form.prompt, form.stream) == ("en", "names: Ada", True)
    assert form.timestamp_granularities == ("segment",)


@pytest.mark.parametrize(
    "fields",
    [
        [("chunking_strategy[type]", "server_vad"), ("chunking_strategy[threshold]", "0.7")],
        [("chunking_strategy", '{"type": "server_vad", "threshold": 0.7}')],
    ],
)
def test_turn_settings_come_as_brackets_or_as_json(fields: list[tuple[str, str]]) -> None:
    expected = ChunkingStrategy(type="server_vad", threshold=0.7)
    assert parse_form([MODEL, *fields]).chunking_strategy == expected


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        ([], "model", "model is missing"),
        (
            [MODEL, ("temperature", "1.7")],
            "temperature",
            "temperature '1.7' cannot be used: it must be a number from 0 to 1",
        ),
        (
            [MODEL, ("voice", "x")],
            "voice",
            "voice is not supported; supported: chunking_strategy, include",
        ),
        (
            [MODEL, ("include[]", "words")],
            "include",
            "include 'words' cannot be used: it must be logprobs",
        ),
        (
            [MODEL, ("known_speaker_names[]", "Ada"), ("known_speaker_names[]", "Grace")],
            "known_speaker_names",
            "known_speaker_names is not supported: voices have no names; speakers are A, B",
        ),
        (
            [MODEL, ("known_speaker_references[]", "data:audio/wav;base64,UklGRg==")],
            "known_speaker_references",
            "known_speaker_references is not supported: voices have no names",
        ),
        (
            [MODEL, ("language", "en"), ("languages[]", "de")],
            "languages",
            "send either language or languages",
        ),
        (
            [MODEL, *[("keywords[]", "x" * 300)] * 7],
            "keywords",
            "keywords has 2112 characters, at most 2000 are allowed",
        ),
        (
            [MODEL, ("prompt", "x" * 1_990), ("keywords[]", "a longer word")],
            "prompt and keywords",
            "prompt and keywords has 2004 characters",
        ),
        (
            [MODEL, ("timestamp_granularities[]", "token")],
            "timestamp_granularities",
            "timestamp_granularities 'token' cannot be used: it must be segment or word",
        ),
        (
            [MODEL, ("response_format", "xml")],
            "response_format",
            "response_format 'xml' cannot be used: it must be one of diarized_json, json",
        ),
        ([MODEL, ("stream", "maybe")], "stream", "stream 'maybe' cannot be used"),
        ([MODEL, MODEL], "model", "model was sent twice"),
        (
            [MODEL, ("chunking_strategy[threshold]", "2")],
            "chunking_strategy.threshold",
            "chunking_strategy.threshold '2' cannot be used: it must be a number from 0.05 to 0.95",
        ),
        (
            [MODEL, ("chunking_strategy", '{"type": "semantic"}')],
            "chunking_strategy.type",
            "chunking_strategy.type 'semantic' cannot be used",
        ),
        ([MODEL, ("prompt", "x" * 2001)], "prompt", "has 2001 characters, at most 2000"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(
    fields: list[tuple[str, str]], param: str, message: str
) -> None:
    with pytest.raises(UnsupportedValue) as refused:
        parse_form(fields)
    assert message in str(refused.value)
    assert refused.value.param == param


def test_lists_come_with_brackets_or_without() -> None:
    """The official client sends brackets."""
    for brackets in ("[]", ""):
        fields = [(f"keywords{brackets}", "Ada"), (f"keywords{brackets}", "Grace Hopper")]
        form = parse_form([MODEL, ("prompt", "On the navy."), *fields])
        assert form.keywords == ("Ada", "Grace Hopper")
        assert form.context == "On the navy. Ada, Grace Hopper"


def test_an_empty_field_is_left_out() -> None:
    names = (
        *("temperature", "stream", "response_format", "language", "prompt", "chunking_strategy"),
        *(
            "timestamp_granularities[]",
            "include[]",
            "keywords[]",
            "languages",
            "known_speaker_names[]",
        ),
        *("stream_include_usage", "max_line_characters", "max_completion_tokens"),
    )
    assert parse_form([MODEL, *((name, "") for name in names)]) == parse_form([MODEL])
    with pytest.raises(UnsupportedValue, match="model is missing"):
        parse_form([("model", "")])


def test_one_of_languages_is_forced_and_of_several_each_segment_has_one() -> None:
    one = parse_form([MODEL, ("languages[]", "de")])
    assert (one.spoken, one.among, one.warnings) == ("de", (), [])
    several = parse_form([MODEL, ("languages[]", "de"), ("languages[]", "en")])
    assert (several.spoken, several.among, several.warnings) == (None, ("de", "en"), [])
    many = parse_form([MODEL, *(("languages[]", code) for code in "abcde")])
    assert (many.spoken, many.among) == (None, ())
    assert many.warnings == [
        "languages has no effect: of more than 4 languages, it is detected freely"
    ]


def test_what_is_honoured_is_not_warned_of() -> None:
    fields = [("temperature", "0"), ("keywords[]", "Ada"), ("stream_include_usage", "true")]
    assert parse_form([MODEL, *fields]).warnings == []


@pytest.mark.parametrize(
    ("fields", "warning"),
    [
        (("temperature", "0.2"), "temperature has no effect: decoding is greedy"),
        (("stream_continuous_usage_stats", "True"), "stream_continuous_usage_stats has no effect"),
        (
            ("max_completion_tokens", "128"),
            "max_completion_tokens has no effect: the server bounds every part",
        ),
    ],
)
def test_what_is_advisory_is_taken_and_named(fields: tuple[str, str], warning: str) -> None:
    assert parse_form([MODEL, fields]).warnings == [warning]


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ([], True),
        ([("response_format", "verbose_json")], True),
        ([("response_format", "text"), ("stream", "true")], True),
        ([("response_format", "text")], False),
        ([("stream", "true"), ("stream_include_usage", "true")], False),
    ],
)
def test_log_probabilities_come_where_a_format_has_room(
    fields: list[tuple[str, str]], wanted: bool
) -> None:
    form = parse_form([MODEL, ("include[]", "logprobs"), *fields])
    assert form.wants_logprobs == wanted
    said = ["include has no effect: this format has no room for log probabilities"]
    assert form.warnings == ([] if wanted else said)
