"""Whisper's prompts: language, task and context are tokens, and no answer shows one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import log
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from auricle.checkpoints.files import open_checkpoint
from auricle.checkpoints.language_support import LanguageSupport, read_language_support
from auricle.checkpoints.prompt import PromptFormat
from auricle.core.errors import BadRequest, CheckpointError
from auricle.processor.decode_requests import LanguageConstraint
from auricle.processor.session.actions import Decode, DecodeTask
from auricle.protocol.recognition import DecodeReply
from auricle_testing.checkpoints.whisper import random_english_whisper, random_whisper

pytestmark = pytest.mark.unit
SECOND = 16_000
Made = tuple[Path, PromptFormat]


def made(make: Callable[[Path], object], path: Path) -> Made:
    make(path)
    return path, PromptFormat(open_checkpoint(path))


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A checkpoint with a tokenizer for English and German."""
    return made(random_whisper, tmp_path_factory.mktemp("several"))


@pytest.fixture(scope="module")
def english(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """An English-only checkpoint."""
    return made(random_english_whisper, tmp_path_factory.mktemp("english"))


def shown(prompt: PromptFormat, tokens: tuple[int, ...]) -> str:
    return str(prompt._tokenizer.decode(list(tokens), skip_special_tokens=False))


# ── languages and tasks ─────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("language", "translating", "task"),
    [
        ("German", False, "transcribe"),
        ("German", True, "translate"),
        ("English", True, "transcribe"),
    ],
)
def test_a_prompt_names_language_and_task(
    several: Made, language: str, translating: bool, task: str
) -> None:
    prompt = several[1].translating() if translating else several[1]
    code = {"German": "de", "English": "en"}[language]
    expected = f"<|startoftranscript|><|{code}|><|{task}|><|notimestamps|>"
    assert shown(prompt, prompt.tail(language)) == expected
    assert shown(prompt, prompt.opening_in(language)) == expected.removeprefix(
        "<|startoftranscript|>"
    )


@pytest.mark.parametrize("given", ["de", "de-AT", "German", "german"])
def test_a_language_is_given_by_code_or_name(several: Made, given: str) -> None:
    assert several[1].check_language(given) == "German"


def test_a_language_without_a_token_is_refused(several: Made) -> None:
    with pytest.raises(BadRequest, match=r"'fr' is not supported; supported: en \(English\), de"):
        several[1].check_language("fr")
    assert several[1].language_constraint(["fr", "de", "en"]) == ("German", "English")


def test_a_checkpoint_of_one_language_says_so(english: Made) -> None:
    prompt = english[1]
    assert prompt.check_language(None) == prompt.check_language("en") == "English"
    assert prompt.language_constraint(["en", "de"]) == ()
    for refused in (
        lambda: prompt.check_language("de"),
        lambda: prompt.language_constraint(["de", "fr"]),
    ):
        with pytest.raises(BadRequest, match=r"not supported; supported: en \(English\)$"):
            refused()
    with pytest.raises(BadRequest, match=r"Whisper \(English\) does not translate"):
        prompt.translating()


def test_languages_are_read_without_weights(several: Made, english: Made, tmp_path: Path) -> None:
    assert read_language_support(several[0]) == LanguageSupport(
        ("en", "de"), translates=True, detects=True
    )
    assert read_language_support(english[0]) == LanguageSupport(("en",), translates=False)
    (tmp_path / "config.json").write_bytes((several[0] / "config.json").read_bytes())
    with pytest.raises(CheckpointError, match="tokenizer"):
        read_language_support(tmp_path)


# ── context and text ────────────────────────────────────────────────────────


def test_context_is_text_before_and_no_word_of_it_is_a_token(several: Made) -> None:
    prompt = several[1]
    assert prompt.head("") == ()
    head = prompt.head("peter <|translate|>")
    assert shown(prompt, head) == "<|startofprev|> peter <|translate|>"
    assert [token for token in head if token in prompt._controls] == [head[0]]


def test_a_longer_context_is_refused_with_its_length(several: Made) -> None:
    prompt = several[1]
    tokens = len(prompt.head("peter " * 20)) - 1
    prompt.check_context("peter " * 20, tokens)
    with pytest.raises(BadRequest, match="tokens of the model, at most 8 are allowed"):
        prompt.check_context("peter " * 20, 8)


@pytest.mark.parametrize("which", ["several", "english"])
def test_no_answer_shows_a_control_token(which: str, request: pytest.FixtureRequest) -> None:
    prompt: PromptFormat = request.getfixturevalue(which)[1]
    text = prompt._plain_ids(" the dog")
    controls = tuple(sorted(prompt._controls))
    tokens = (*prompt.opening_in("English"), *text[:1], *controls, *text[1:])
    language, said = prompt.answer(tokens, "English" if which == "english" else None)
    assert (language, said) == ("English", "the dog")
    pieces = prompt.pieces(tokens, "English" if which == "english" else None)
    assert b"".join(data for _, data in pieces) == b"the dog"


# ── detection ───────────────────────────────────────────────────────────────


@dataclass
class Model:
    """Detects `heard` with probability `sure`, and then generates a word."""

    prompt: PromptFormat
    heard: str = "German"
    sure: float = 0.9
    asked: list[DecodeTask] = field(default_factory=list)

    async def __call__(self, decode: Decode, scored: bool) -> DecodeReply:
        task = decode.task
        self.asked.append(task)
        if not task.allowed:
            tokens = self.prompt._plain_ids(" dog")
            return DecodeReply(tokens, "stop", 9, 0, 0, logprobs=(-0.5,) * len(tokens))
        assert task.max_tokens == 1 and scored
        token = self.prompt.opening_in(self.heard)[0]
        found = token if token in task.allowed else task.allowed[0]
        return DecodeReply((found,), "length", 9, 0, 0, logprobs=(log(self.sure),))

    @property
    def detections(self) -> int:
        return sum(bool(task.allowed) for task in self.asked)


class Segments:
    """The part of a session's state that the code under test uses."""

    def __init__(
        self,
        model: Model,
        *languages: str,
        language: str | None = None,
        before: str = "",
    ) -> None:
        stability = SimpleNamespace(committed=())
        state = SimpleNamespace(segment=SimpleNamespace(stability=stability))
        self.model, self.language = model, language
        self._among = LanguageConstraint(
            *(cast(Any, state), model.prompt, language, languages, model, before)
        )

    async def said(self, segment: int = 0, seconds: float = 1.0, context: str = "") -> str:
        prompt = self.model.prompt
        task = DecodeTask(prompt.head(context), prompt.tail(self.language), 99, final=False)
        samples = int(seconds * SECOND)
        reply = await self._among.reply(Decode(samples, task, segment, 1000, 0.0, 0.0), True)
        assert len(reply.logprobs) == len(reply.tokens)
        language, text = prompt.answer(reply.tokens, self.language)
        assert text == "dog"
        return language


async def test_a_language_is_detected_by_one_request_without_context(several: Made) -> None:
    model = Model(several[1])
    assert await Segments(model).said(context="peter") == "German"
    detecting, writing = model.asked
    assert detecting.head == () and writing.head == several[1].head("peter")
    assert shown(several[1], detecting.tail) == "<|startoftranscript|>"
    assert detecting.allowed == several[1].language_tokens(())
    assert writing.tail == several[1].tail("German")


async def test_of_languages_that_are_named_only_these_can_be_detected(several: Made) -> None:
    model = Model(several[1], heard="German")
    assert await Segments(model, "English").said() == "English"


async def test_a_language_that_is_given_is_not_detected(several: Made) -> None:
    model = Model(several[1])
    assert await Segments(model, language="English").said() == "English"
    assert model.detections == 0


async def test_one_that_is_heard_long_enough_counts_for_its_segment(several: Made) -> None:
    model = Model(several[1])
    segments = Segments(model)
    for seconds in (1.0, 2.0, 3.0, 4.0, 5.0):
        assert await segments.said(0, seconds) == "German"
    assert model.detections == 3
    model.heard = "English"
    assert await segments.said(0, 6.0) == "German"
    assert await segments.said(1, 1.0) == "English"


async def test_one_that_is_doubtful_gives_way_to_that_of_before(several: Made) -> None:
    model = Model(several[1], sure=0.5)
    segments = Segments(model)
    assert await segments.said(0) == "German"
    model.heard = "English"
    assert await segments.said(1) == "German"
    model.sure = 0.7
    assert await segments.said(2) == "English"


@pytest.mark.parametrize(
    ("before", "among", "told"),
    [
        ("English", (), "English"),
        ("English", ("English", "German"), "English"),
        ("English", ("German",), "German"),  # it is none of the named languages
        ("", (), "German"),
    ],
)
async def test_a_session_may_begin_after_text_in_a_language(
    several: Made, before: str, among: tuple[str, ...], told: str
) -> None:
    model = Model(several[1], sure=0.5)
    assert await Segments(model, *among, before=before).said() == told
    model.sure = 0.9
    assert await Segments(model, *among, before=before).said() == "German"
