"""Thousands of hostile inputs against the frontend's parsers, and the campaign's own arithmetic."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from auricle.errors import UntrustedCaller
from auricle.runtime.seals import Opener
from auricle.runtime.secrets import SECRET_FILE, Secrets
from benchmarks.hostile.areas import AREAS
from benchmarks.hostile.attackers.seals import Seals
from benchmarks.hostile.attackers.sockets import Ending
from benchmarks.hostile.attackers.translations import judged
from benchmarks.hostile.beside import Row
from benchmarks.hostile.case import Case, Verdict, cases, leak, make, of_close, of_http, parse_id
from benchmarks.hostile.figures import changed, figures, growth
from benchmarks.hostile.generators.inside import GOOD, SEALS
from benchmarks.hostile.generators.translations import LANGUAGES, ORDERS, STREAM
from benchmarks.hostile.in_process import AREAS_IN_PROCESS, told
from benchmarks.hostile.run import FULL, QUICK, Campaign
from benchmarks.hostile.watch import Footprint, Held, failures
from benchmarks.hostile.witness import Account, speech

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
    # Neither is everything refused, nor nothing: then little would be tried.
    assert 0.05 * count < len(refused) < count
    if area not in (
        "requests",
        "translate_requests",
    ):  # among themselves processes may speak of types
        shown = {str(error): leak(str(error).encode(errors="replace")) for error in refused}
        assert not {error[:200]: what for error, what in shown.items() if what}


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"translate": "es"}, "translate must be array"),
        ({"translate": [1]}, "translate[0] must be str"),
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


def test_ci_tries_thousands_of_cases_without_a_graph() -> None:
    assert sum(COUNTS.get(area, 1_500) for area in AREAS_IN_PROCESS) >= 5_000


@pytest.mark.parametrize(("scale", "least"), [(FULL, 100_000), (QUICK, 5_000)])
def test_the_campaign_has_as_many_cases_as_it_says(scale: object, least: int) -> None:
    assert sum(scale.count(area) for area in AREAS.values()) >= least  # type: ignore[attr-defined]


# ── cases ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("area", AREAS)
def test_a_case_can_be_made_again_from_its_id_alone(area: str) -> None:
    *_, last = cases(area, 7, 20, AREAS[area].generate)
    name, seed, number = parse_id(last.id)
    again = make(name, seed, number, AREAS[name].generate)
    # Text, because values may hold NaN, which equals nothing.
    assert repr(again) == repr(last)
    assert repr(make(name, 8, number, AREAS[name].generate)) != repr(last)


def test_what_is_no_id_is_refused() -> None:
    with pytest.raises(ValueError, match="is no case"):
        parse_id("frames-1")


def test_the_witness_says_nothing_twice() -> None:
    first, second = speech(1), speech(2)
    said = [next(packets).tobytes() for packets in (first, second) for _ in range(100)]
    assert len(set(said)) == len(said)


# ── verdicts ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("status", "body", "retry_after", "verdict"),
    [
        (200, b"Traceback", False, Verdict.ANSWERED),  # what was said may be anything
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
        (1008, b"sample_rate 3 is outside 4000 to 192000 Hz", Verdict.REFUSED),
        (1008, b"ValueError: no", Verdict.LEAKED),
        (1011, b"", Verdict.FAILED),
        (1013, b"", Verdict.BUSY),
    ],
)
def test_close_codes_are_judged(code: int, error: bytes, verdict: Verdict) -> None:
    assert of_close(code, b"", error).verdict is verdict


def test_the_servers_words_are_no_leak() -> None:
    assert leak(b'{"message":"language \'xx\' is not supported; supported: English"}') is None


def test_a_close_frame_ends_a_session() -> None:
    ending = Ending()
    ending.take(1, b'{"type":"error","code":"protocol"}')
    ending.take(8, b"\x03\xf0reason")
    assert (ending.code, ending.reason) == (1008, b"reason")
    assert ending.outcome().verdict is Verdict.REFUSED


# ── figures ─────────────────────────────────────────────────────────────────


def row(name: str = "frames", **changes: object) -> Row:
    said = {"verdicts": {"refused": 10}, "tried": 10}
    made = Row(name, said=said, alone=[0.1] * 20, beside=[0.1] * 20)
    for field, value in changes.items():
        setattr(made, field, value)
    return made


def held(memory: float = 100.0, descriptors: int = 10, processes: int = 1) -> Held:
    return Held(memory, descriptors, processes, ())


def footprint(one: Held, *files: str) -> Footprint:
    return Footprint({"Frontend": one}, frozenset(files))


def test_a_campaign_without_an_effect_has_only_cases() -> None:
    same = footprint(held(), "socket")
    found = Campaign([row(), row("starts")], {}, same, same, {"Frontend": (1, 1)})
    measured = figures(found)
    assert measured["hostile_cases"] == 20
    assert measured["witness_lag_p95_growth"] == pytest.approx(1.0)
    others = set(measured) - {"hostile_cases", "witness_lag_p95_growth"}
    assert {name: measured[name] for name in others} == dict.fromkeys(others, 0)


def test_everything_unexpected_is_counted() -> None:
    remarkable = [{"verdict": verdict} for verdict in ("hang", "failed", "failed", "leaked")]
    rows = [
        row(remarkable=remarkable, beside=[0.1] * 10 + [0.3] * 10),
        row("starts", account=Account(error="closed")),
        row("echo", said={"held": False, "detail": "", "cases": 6}, log_failures=["ERROR"]),
        row("forms", said={}, trouble="the attacker ended with 1"),
    ]
    before, after = footprint(held()), footprint(held(150.0, 14, 2), "left")
    measured = figures(Campaign(rows, {}, before, after, {"Frontend": (1, 2)}))
    assert {name: value for name, value in measured.items() if value} == {
        "hostile_cases": 20,
        "crashes": 1,
        "hangs": 1,
        "answers_5xx": 2,
        "answers_leaking": 1,
        "attacks_not_held": 1,
        "witness_errors": 1,
        "witness_lag_p95_growth": pytest.approx(3.0),
        "log_failures": 1,
        "attackers_failed": 1,
        "memory_left_mib": 50.0,
        "descriptors_left": 4,
        "processes_left": 1,
        "files_left": 1,
    }


def test_a_text_is_changed_if_it_is_another_alone() -> None:
    one = row(account=Account(text="a b"))
    assert not changed(one, Campaign([one], {"frames": Account(text="a b")}))
    assert changed(one, Campaign([one], {"frames": Account(text="a c")}))


def test_a_text_that_could_not_be_compared_is_neither() -> None:
    one = row(account=Account(text="a b"))
    found = Campaign([one], {"frames": Account(error="refused")})
    assert not changed(one, found)
    assert figures(found)["attackers_failed"] == 1


def test_an_attack_on_the_log_fails_if_the_log_stays_readable() -> None:
    said = {"held": True, "detail": "", "cases": 1_600}
    assert figures(Campaign([row("log_flood", said=said, log_lines=100)]))["attacks_not_held"] == 0
    assert figures(Campaign([row("log_flood", said=said, log_lines=900)]))["attacks_not_held"] == 1


def test_a_few_words_are_no_measure_of_lag() -> None:
    assert growth(row(beside=[9.0]), [0.1] * 20) == 0.0


@pytest.mark.parametrize(
    ("line", "tells"),
    [
        ("Frontend | Traceback (most recent call last):", True),
        ("Frontend | ERROR auricle.frontend.doors.sockets: session failed: x", True),
        ("PdWorker | thread 'tokio-rt' panicked at src/lib.rs", True),
        ("Frontend | 2026-11-22 ERROR _core: Failed to send response: SendError { .. }", False),
        ("Frontend | INFO auricle: session sess_1 ended: bad_request, stream", False),
    ],
)
def test_failures_in_a_log_are_found(line: str, tells: bool) -> None:
    assert bool(failures([line])) is tells


# ── seals ───────────────────────────────────────────────────────────────────


def test_only_good_seals_are_opened(tmp_path: Path) -> None:
    discovery = tmp_path / "discovery"
    discovery.mkdir()
    secret = discovery / SECRET_FILE
    secret.touch(mode=0o600)
    secret.write_text("5" * 64)
    seals = Seals(discovery, tmp_path)
    opener = Opener(Secrets(secret, "a secret"), "here/1")
    opened = {}
    for how in SEALS:
        try:
            opened[how] = opener.open(seals.seal(how, b"message", "here/1"))
        except UntrustedCaller as error:
            opened[how] = type(error)
    assert opened == {how: b"message" if how == GOOD else UntrustedCaller for how in SEALS}
