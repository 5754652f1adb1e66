"""Text from clients: bounded first, quoted safely, and plain text to the tokenizer."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle.checkpoints.files import ModelCheckpoint
from auricle.checkpoints.languages import FAMILY
from auricle.checkpoints.prompt import PromptFormat
from auricle.config.settings import CommonSettings
from auricle.core.errors import BadRequest, ProtocolError, UnsupportedValue
from auricle.core.limits import CONTEXT, file_name, query_fields
from auricle.core.sanitize import escaped, quoted
from auricle.frontend.protocols.deepgram import messages as deepgram
from auricle.frontend.protocols.deepgram.options import parse_options
from auricle.frontend.protocols.realtime import events
from auricle.frontend.protocols.realtime.config import SessionConfig
from auricle.frontend.protocols.riva.options import parse_config, refuse_names
from auricle.frontend.protocols.stream import start as parsing
from auricle.frontend.protocols.transcriptions.form import parse_form
from auricle.frontend.transport.access.keys import new_key
from auricle.frontend.transport.request_errors import error_body
from auricle.process.logs import configure_logging
from tests.fakes.riva import config
from tests.fakes.workers import CHECKPOINT, PROMPT

pytestmark = pytest.mark.unit
HOSTILE = "a\nERROR auricle: forged\x1b[31m\u202egnp.exe\0\ud800\u2028"
MEGABYTE = "x" * (1 << 20)
TOKENIZER = PROMPT._tokenizer
ADDED = {token.content: n for n, token in TOKENIZER.get_added_tokens_decoder().items()}


# ── quoting ─────────────────────────────────────────────────────────────────


@given(st.text(alphabet=st.characters(), max_size=200))
def test_a_quoted_text_is_short_printable_and_encodable(text: str) -> None:
    for shown in (escaped(text), quoted(text)):
        assert shown.isprintable()
        assert len(shown.encode()) < 700


def test_a_quoted_text_is_still_recognised() -> None:
    assert quoted("it's Ålesund, 東京") == r"'it\'s Ålesund, 東京'"
    assert quoted("a\nb\x1b\u202e\0\ud800") == r"'a\nb\x1b\u202e\x00\ud800'"
    assert quoted("x" * 61) == f"'{'x' * 60}'… (61 characters)"


def test_a_key_in_the_wrong_place_is_left_out() -> None:
    secret, _ = new_key("acme")
    for before in ("", "x" * 30, "x" * 55):
        shown = quoted(before + secret)
        assert secret[len("auricle-") :][:6] not in shown
        assert before in shown


def test_what_is_no_text_is_named_at_no_cost() -> None:
    shown = [quoted(value) for value in ([1] * 10**6, {"a": 1}, 10**5000, 1.5, None, True)]
    assert shown == ["a list", "an object", "a number of that size", "1.5", "None", "True"]


def test_a_line_of_the_log_cannot_be_forged(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before = (root.level, root.handlers[:])
    try:
        for log_format in ("text", "json"):
            configure_logging("Frontend", CommonSettings(log_format=log_format))
            logging.getLogger("auricle.x").warning("refused: %s", HOSTILE)
            (line,) = capsys.readouterr().err.splitlines()
            assert line.isprintable()
            assert "forged" in line
    finally:
        root.setLevel(before[0])
        root.handlers[:] = before[1]


# ── what clients send ───────────────────────────────────────────────────────


def start(**fields: object) -> str:
    return json.dumps({"type": "start", "sample_rate": 16_000, **fields})


def stream(**fields: object) -> None:
    parsing.parse_start(start(**fields))


def form(**fields: str) -> None:
    parse_form([("model", "demo"), *fields.items()])


def realtime(**fields: object) -> None:
    SessionConfig().updated({"audio": {"input": {"transcription": fields}}})


def streamed_among(languages: str) -> None:
    stream(languages=[languages])


def listed(**fields: str) -> None:
    realtime(**{name: [text] for name, text in fields.items()})


@pytest.mark.parametrize(
    ("take", "field", "most"),
    [
        (stream, "context", 2_000),
        (stream, "language", 32),
        (form, "prompt", 2_000),
        (form, "language", 32),
        (realtime, "prompt", 2_000),
        (realtime, "language", 32),
        (realtime, "model", 256),
        (form, "keywords", 2_000),
        (form, "languages", 32),
        (listed, "keywords", 2_000),
        (listed, "languages", 32),
        (streamed_among, "languages", 32),
    ],
)
def test_text_is_bounded_by_name(take: object, field: str, most: int) -> None:
    assert callable(take)
    take(**{field: "x" * most})
    with pytest.raises(BadRequest) as refused:
        take(**{field: MEGABYTE})
    assert str(refused.value) == f"{field} has 1048576 characters, at most {most} are allowed"
    with pytest.raises(BadRequest, match=f"{field} has a null character at position 1"):
        take(**{field: "a\0b"})


@pytest.mark.parametrize(
    "take",
    [
        lambda text: parsing.parse_start(start(encoding=text)),
        lambda text: parsing.parse_start(start(feature_dtype=text, encoding="log_mel")),
        lambda text: parsing.parse_start(start(**{text: 1})),
        lambda text: parsing.parse_start(start(endpointing={text: 1})),
        lambda text: parsing.parse_start(json.dumps({"type": text})),
        lambda text: parsing.parse_start(text.replace("\ud800", "")),  # frames are UTF-8
        lambda text: parsing.parse_end(json.dumps({"type": text})),
        lambda text: events.parse_event(json.dumps({"type": text})),
        lambda text: events.parse_event({"type": text.replace("\ud800", "")}),
        lambda text: events.parse_event(json.dumps({"type": "session.update", "event_id": text})),
        lambda text: SessionConfig().updated({text: 1}),
        lambda text: SessionConfig().updated({"type": text}),
        lambda text: SessionConfig().updated({"audio": {"input": {"format": {"type": text}}}}),
        lambda text: SessionConfig().updated({"audio": {"input": {"turn_detection": text}}}),
        lambda text: SessionConfig().updated(
            {"audio": {"input": {"turn_detection": {"type": text}}}}
        ),
        lambda text: SessionConfig().updated(
            {"audio": {"input": {"noise_reduction": {"type": text}}}}
        ),
        lambda text: SessionConfig().updated({"include": [text]}),
        lambda text: realtime(delay=text),
        lambda text: form(**{"include[]": text}),
        lambda text: form(response_format=text),
        lambda text: form(**{text: "1"}),
        lambda text: form(temperature=text),
        lambda text: form(chunking_strategy=text),
        lambda text: form(chunking_strategy=json.dumps({text: 1})),
        lambda text: form(**{f"chunking_strategy[{text}]": "1"}),
        lambda text: parse_form([("model", "demo"), (text, "1"), (text, "2")]),
        lambda text: PROMPT.check_language(text[:32]),
        lambda text: query_fields("model=" + text),
        lambda text: parse_options("encoding=" + quote(text[:200], errors="replace")),
        lambda text: parse_options(quote(text[:200], errors="replace") + "=1"),
        lambda text: deepgram.parse_message(json.dumps({"type": text[:1000]})),
        lambda text: deepgram.parse_message(text.replace("\ud800", "")),
        lambda text: refuse_names("custom_configuration", [text]),
        lambda text: parse_config(config(model=text.replace("\ud800", "")), streaming=True),
        file_name,
    ],
)
@pytest.mark.parametrize("text", [HOSTILE * 1000, "`'\"\\" * 1000])
def test_an_error_repeats_little_of_it_and_nothing_that_has_an_effect(
    take: object, text: str
) -> None:
    assert callable(take)
    with pytest.raises(BadRequest) as refused:
        take(text)
    body = error_body(refused.value)["error"]
    assert isinstance(body, dict)
    for shown in (refused.value.for_client, str(body["param"])):
        assert shown.isprintable()
        assert len(shown) < 1000


@pytest.mark.parametrize("character", ["\ud800", "\udfff"])
def test_half_a_surrogate_pair_is_refused(character: str) -> None:
    """It cannot be sent to a processor, and once counted as the processor's failure."""
    with pytest.raises(UnsupportedValue, match="prompt is not valid Unicode: half a surrogate"):
        form(prompt=f"names {character}")
    with pytest.raises(UnsupportedValue, match="language is not valid Unicode"):
        realtime(language=character)
    with pytest.raises(ProtocolError):
        stream(context=character)
    with pytest.raises(BadRequest):
        PROMPT.check_context(character, CONTEXT)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000, "the message must be object"),
        ('{"type":"session.update","session":{"a":' + "[" * 30_000, "it is nested too deeply"),
        ('{"type":"session.update","session":{"a":' + "9" * 5000 + "}}", "too large a number"),
        ('{"type":"input_audio_buffer.append","audio":"?"}', "audio is not base64"),
        ('{"type":"input_audio_buffer.append"}', "audio is missing"),
        ('{"type":"input_audio_buffer.append","audio":5}', "audio must be bytes"),
        ("{nonsense", r"it is not valid JSON \(byte 1\)"),
    ],
)
def test_json_of_any_form_is_answered_in_our_words(text: str, said: str) -> None:
    with pytest.raises(ProtocolError, match=said):
        events.parse_event(text)


def test_a_flood_of_fields_is_refused_before_it_is_looked_at() -> None:
    many = {f"x{number}": 0 for number in range(101)}
    for changes in (many, {"audio": {"input": many}}):
        with pytest.raises(UnsupportedValue, match="session has more than 100 fields"):
            SessionConfig().updated(changes)


# ── the prompt ──────────────────────────────────────────────────────────────


def controls(tokens: tuple[int, ...]) -> list[int]:
    return [token for token in tokens if token in ADDED.values()]


@pytest.mark.parametrize("token", ADDED)
def test_a_control_token_in_context_is_text(token: str) -> None:
    for text in (token, f"names: {token}", f"x{token}y", token * 3, f"\n{token}\n"):
        assert controls(PROMPT.head(text)) == controls(PROMPT.head(""))
        (at,) = (i for i, t in enumerate(PROMPT.head(text)) if t == PROMPT.stop_tokens[0])
        shown = TOKENIZER.decode(PROMPT.head(text)[:at], skip_special_tokens=False)
        assert shown.endswith(f"system\n{text}")


PIECES = st.sampled_from([*ADDED, "<", "|", "im_end", "|>", "<asr_", "text>", "\n", "assistant"])


@given(st.lists(PIECES | st.text(max_size=5), max_size=30).map("".join))
def test_the_structure_of_a_prompt_does_not_depend_on_its_text(text: str) -> None:
    assert controls(PROMPT.head(text)) == controls(PROMPT.head(""))


def test_words_are_tokenized_as_within_the_template() -> None:
    for language in FAMILY:
        template = f"<|audio_end|><|im_end|>\n<|im_start|>assistant\nlanguage {language}<asr_text>"
        assert PROMPT.tail(language) == tuple(TOKENIZER.encode(template).ids)
    template = "<|im_start|>system\nAda, Grace\n<|im_end|>\n<|im_start|>user\n<|audio_start|>"
    assert PROMPT.head("Ada, Grace\n") == tuple(TOKENIZER.encode(template).ids)


def without_languages() -> PromptFormat:
    checkpoint: ModelCheckpoint = replace(CHECKPOINT, languages=())
    return PromptFormat(checkpoint)


def test_a_checkpoint_that_names_no_languages_has_those_of_its_family() -> None:
    prompt = without_languages()
    assert prompt.check_language("de-CH") == "German"
    for language in ("Klingon", "English<|im_end|>", "english<asr_text>"):
        with pytest.raises(BadRequest, match=r"is not supported; supported: zh \(Chinese\), en"):
            prompt.check_language(language)


def test_the_context_of_a_session_is_bounded_at_the_processor_too() -> None:
    PROMPT.check_context("x" * CONTEXT, CONTEXT)
    with pytest.raises(BadRequest, match="context has 2001 characters, at most 2000"):
        PROMPT.check_context("x" * (CONTEXT + 1), CONTEXT)


def test_the_context_of_a_session_is_bounded_in_tokens() -> None:
    """A character may be several tokens; longer text would leave no room for the audio."""
    clefs = "\N{MUSICAL SYMBOL G CLEF}" * 100
    PROMPT.check_context(clefs, 400)
    said = r"context has 400 tokens of the model, at most 399 are allowed \(with 100 characters\)"
    with pytest.raises(BadRequest, match=said):
        PROMPT.check_context(clefs, 399)
