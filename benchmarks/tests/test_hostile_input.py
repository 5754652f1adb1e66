"""Thousands of hostile inputs against the frontend's parsers, and the campaign's own arithmetic."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from benchmarks.hostile.areas import AREAS
from benchmarks.hostile.attackers.translations import judged
from benchmarks.hostile.case import Case, Verdict, cases, leak, of_close, of_http
from benchmarks.hostile.generators.translations import LANGUAGES, ORDERS, STREAM
from benchmarks.hostile.in_process import AREAS_IN_PROCESS, told

pytestmark = pytest.mark.unit
COUNTS = {
    **{"forms": 700, "features": 900, "containers": 400},
    **{"translations": 400, "translate_requests": 200},
}
SEED = 5


@pytest.mark.parametrize("area", AREAS_IN_PROCESS)
def test_no_input_meets_anything_but_an_error_of_ours(area: str) -> None:
    count = COUNTS.get(area, 1_500)
    answers = [told(case) for case in cases(area, SEED, count, AREAS[area].generate)]
    assert len(answers) == count
    refused = [error for error in answers if error is not None]
    # If all inputs or none were refused, the cases would test little.
    assert 0.05 * count < len(refused) < count
    if area not in (
        "requests",
        "translate_requests",
    ):  # errors between processes may name types
        shown = {str(error): leak(str(error).encode(errors="replace")) for error in refused}
        assert not {error[:200]: what for error, what in shown.items() if what}


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"translate": "es"}, "translate 'es' cannot be used: it must be a JSON list"),
        ({"translate": [1]}, "translate 1 cannot be used: it must be text"),
        ({"translate": LANGUAGES[6]}, "translate has 10000 languages, at most 4 are allowed"),
        ({"translate": ["es", "es"]}, "translate names es twice: name it once"),
        ({"translate": ["<|im_start|>"]}, "'<|im_start|>' is not an ISO 639-1 code, such as es"),
        ({"terms": {"de": {"a": "b"}}}, "terms has 'de', into which nothing is translated: ask"),
        (
            {"translate": ["es"], "terms": {"es": {str(n): "b" for n in range(201)}}},
            "terms has 201 terms of es, at most 200 are allowed",
        ),
        (
            {"translate": ["es"], "terms": {"es": {"a": "b" * 101}}},
            "terms has 101 characters, at most 100 are allowed",
        ),
        (
            {"translate": ["es"], "context": "word " * 5_000},
            "context has 25000 characters, at most 2000 are allowed",
        ),
    ],
)
def test_a_refused_translation_is_told_what_was_wrong_and_what_would_be_right(
    wanted: dict[str, object], said: str
) -> None:
    start = json.dumps({"type": "start", "sample_rate": 16_000} | wanted).encode()
    case = Case("translations", 0, 0, "start", {"path": STREAM, "sent": [(1, start)]})
    assert said in str(told(case))


def test_orders_and_control_tokens_as_texts_are_texts() -> None:
    """They are neither refused nor obeyed; the worker's prompt has them as plain text."""
    terms = {order[:100]: order[:100] for order in ORDERS}
    wanted = {"translate": ["es"], "terms": {"es": terms}, "context": ORDERS[2]}
    start = json.dumps({"type": "start", "sample_rate": 16_000} | wanted).encode()
    assert told(Case("translations", 0, 0, "", {"path": STREAM, "sent": [(1, start)]})) is None


@pytest.mark.parametrize(
    ("heard", "verdict"),
    [
        ({"committed": "El mercado"}, Verdict.ANSWERED),
        ({"committed": "", "missing": "unsupported_value"}, Verdict.ANSWERED),
        ({"committed": ""}, Verdict.FAILED),
        ({"committed": "El <|im_end|>"}, Verdict.LEAKED),
        ({"committed": "El mercado", "final": False}, Verdict.FAILED),
    ],
)
def test_sessions_with_translations_are_judged(heard: dict[str, object], verdict: Verdict) -> None:
    final = {"type": "final", "segment": 1, "text": "the market"}
    translation = {"type": "translation", "segment": 1, "language": "es", "final": True} | heard
    assert judged([final, translation, {"type": "done"}], 1).verdict is verdict


def test_nobody_resumes_a_session_that_is_not_theirs_as_it_was() -> None:
    made = list(cases("resumes", SEED, 1_500, AREAS["resumes"].generate))
    answers = {case.id: told(case) for case in made if case.data.refused}
    assert len(answers) > 0.5 * len(made)
    assert not [case for case, error in answers.items() if error is None]
    codes = Counter(error.code for error in answers.values() if error is not None)
    assert set(codes) == {
        *("protocol", "resume_malformed", "resume_forged", "resume_other_client"),
        *("resume_other_options", "resume_position", "resume_missing"),
    }


# ── verdicts ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("status", "body", "retry_after", "verdict"),
    [
        (200, b"Traceback", False, Verdict.ANSWERED),  # a transcript may contain anything
        (400, b"the form cannot be read", False, Verdict.REFUSED),
        (500, b"", False, Verdict.FAILED),
        (503, b"", False, Verdict.FAILED),
        (503, b"", True, Verdict.BUSY),
        (504, b'{"code": "deadline"}', False, Verdict.REFUSED),
        (504, b"", False, Verdict.FAILED),
        (400, b"KeyError: 'x'", False, Verdict.LEAKED),
        (400, b"x" * 5_000, False, Verdict.LEAKED),
    ],
)
def test_http_answers_are_judged(
    status: int, body: bytes, retry_after: bool, verdict: Verdict
) -> None:
    assert of_http(status, body, retry_after).verdict is verdict


@pytest.mark.parametrize(
    ("code", "error", "verdict"),
    [
        (1000, b"", Verdict.ANSWERED),
        (1002, b"", Verdict.REFUSED),
        (1008, b"sample_rate 3 cannot be used: it must be a whole number", Verdict.REFUSED),
        (1008, b"ValueError: no", Verdict.LEAKED),
        (1011, b"", Verdict.FAILED),
        (1013, b"", Verdict.BUSY),
    ],
)
def test_close_codes_are_judged(code: int, error: bytes, verdict: Verdict) -> None:
    assert of_close(code, b"", error).verdict is verdict
