"""Thousands of hostile inputs against the frontend's parsers, and the campaign's arithmetic."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.hostile.areas import AREAS
from benchmarks.hostile.attacker import Attacker, attacked
from benchmarks.hostile.attackers.wire import Target
from benchmarks.hostile.inputs import Input, Resumption, Session, cases, make, recorded
from benchmarks.hostile.oracle import Outcome, Verdict, leak, of_answers, of_close, of_translations
from benchmarks.hostile.strategies.messages import STREAM
from benchmarks.hostile.strategies.values import ORDERS, as_json
from benchmarks.tests.hostile_parsers import told

pytestmark = pytest.mark.unit
# A campaign, `python -m benchmarks.hostile`, has many more.
COUNTS = {
    **dict.fromkeys(("starts", "resumes", "events", "pcm", "listen", "telephones"), 500),
    **dict.fromkeys(("wyoming", "rpc", "requests"), 500),
    **{"forms": 250, "features": 300, "containers": 150, "damaged": 30},
    **{"translations": 150, "translate_requests": 100},
}
OF_PROCESSES = ("requests", "translate_requests")  # errors between processes may name types
SEED = 5


@pytest.mark.parametrize("area", COUNTS)
def test_an_input_meets_only_errors_for_clients(area: str) -> None:
    count = COUNTS[area]
    answers = [told(case.input) for case in cases(area, SEED, count, AREAS[area].strategy)]
    refused = [error for error in answers if error is not None]
    # If all inputs or none were rejected, the cases would test little.
    assert 0.05 * count < len(refused) < count
    if area not in OF_PROCESSES:
        shown = {str(error): leak(str(error).encode(errors="replace")) for error in refused}
        assert not {error[:200]: found for error, found in shown.items() if found}


@pytest.mark.parametrize("area", AREAS)
def test_a_case_is_a_function_of_its_area_seed_and_number(area: str) -> None:
    strategy = AREAS[area].strategy
    first = [make(area, SEED, number, strategy) for number in range(3)]
    assert [repr(make(area, SEED, number, strategy)) for number in (2, 1, 0)] == [
        repr(case) for case in reversed(first)
    ]
    assert len({repr(case.input) for case in first}) > 1


def test_recorded_regressions_are_sent_first_and_replayed_by_their_id() -> None:
    for area in AREAS:
        made = list(cases(area, SEED, 2, AREAS[area].strategy))
        assert made[: len(recorded(area))] == list(recorded(area)[:2])
        for case in recorded(area):
            assert make(area, 0, case.number, AREAS[area].strategy) == case
            assert case.right in set(Verdict)


def start(**fields: object) -> Session:
    message = {"type": "start", "sample_rate": 16_000, **fields}
    return Session(STREAM, ((1, as_json(message)),))


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        ({"translate": "es"}, "translate 'es' cannot be used: it must be a JSON list"),
        ({"translate": [1]}, "translate 1 cannot be used: it must be text"),
        ({"translate": ["es"] * 10_000}, "translate has 10000 languages, at most 4 are allowed"),
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
def test_a_rejected_translation_is_told_the_error_and_the_bound(
    wanted: dict[str, object], error: str
) -> None:
    assert error in str(told(start(**wanted)))


def test_orders_and_control_tokens_as_texts_are_texts() -> None:
    """They are neither rejected nor obeyed; the worker's prompt has them as plain text."""
    terms = {order[:100]: order[:100] for order in ORDERS}
    assert told(start(translate=["es"], terms={"es": terms}, context=ORDERS[2])) is None


def test_only_an_unchanged_session_is_resumed_and_only_by_its_client() -> None:
    made = [case.input for case in cases("resumes", SEED, 500, AREAS["resumes"].strategy)]
    answers = [told(one) for one in made if isinstance(one, Resumption) and one.refused]
    assert len(answers) > 0.5 * len(made)
    assert None not in answers
    codes = Counter(error.code for error in answers if error is not None)
    assert set(codes) == {
        *("protocol", "resume_malformed", "resume_forged", "resume_other_client"),
        *("resume_other_options", "resume_position", "resume_missing"),
    }


# Verdicts.


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (b"200 OK\r\n\r\nTraceback", Verdict.ANSWERED),  # a transcript may contain anything
        (b"400 \r\n\r\nthe form cannot be read", Verdict.REFUSED),
        (b"500 \r\n\r\n", Verdict.FAILED),
        (b"503 \r\n\r\n", Verdict.FAILED),
        (b"503 \r\nRetry-After: 1\r\n\r\n", Verdict.BUSY),
        (b'504 \r\n\r\n{"code": "deadline"}', Verdict.REFUSED),
        (b"504 \r\n\r\n", Verdict.FAILED),
        (b"400 \r\n\r\nKeyError: 'x'", Verdict.LEAKED),
        (b"400 \r\n\r\n" + b"x" * 5_000, Verdict.LEAKED),
        (b"200 OK\r\n\r\nHTTP/1.1 500 \r\n\r\n", Verdict.FAILED),  # two requests
        (b"100 Continue\r\n\r\nHTTP/1.1 400 \r\n\r\n", Verdict.REFUSED),
        (b"", Verdict.FAILED),
    ],
)
def test_http_answers_are_judged(answer: bytes, verdict: Verdict) -> None:
    assert of_answers(b"HTTP/1.1 " + answer).verdict is verdict


@pytest.mark.parametrize(
    ("code", "error", "verdict"),
    [
        (1000, b"", Verdict.ANSWERED),
        (1002, b"", Verdict.REFUSED),
        (1008, b"sample_rate 3 cannot be used: it must be a whole number", Verdict.REFUSED),
        (1008, b"ValueError: no", Verdict.LEAKED),
        (1000, b"ValueError: no", Verdict.LEAKED),
        (1011, b"", Verdict.FAILED),
        (1013, b"", Verdict.BUSY),
    ],
)
def test_close_codes_are_judged(code: int, error: bytes, verdict: Verdict) -> None:
    assert of_close(code, b"", error).verdict is verdict


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
    judged = of_translations([final, translation, {"type": "done"}], 1)
    assert judged.verdict is verdict


TARGET = Target("127.0.0.1", 9, "", "", "", "demo", "", (), "")


@pytest.mark.parametrize(
    ("outcome", "figure"),
    [(Verdict.REFUSED, []), (Verdict.FAILED, ["failed"]), (Verdict.LEAKED, ["leaked"])],
)
async def test_an_unexpected_answer_is_reported_with_its_case(
    monkeypatch: pytest.MonkeyPatch, outcome: Verdict, figure: list[str]
) -> None:
    async def send(_attacker: Attacker, _sent: Input) -> Outcome:
        return Outcome(outcome)

    monkeypatch.setattr(Attacker, "send", send)
    case = make("forms", SEED, 0, AREAS["forms"].strategy)
    found = await attacked(TARGET, [case], 1, 10.0)
    assert [one.verdict for _, one in found.remarkable] == figure
    assert [one.id for one, _ in found.remarkable] == ["forms-5-0"] * len(figure)
