"""Decode requests of a session, repeated if context or language make the first answer doubtful."""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from math import exp, fsum, inf

from msgspec.structs import replace as replace_struct

from auricle.audio.constants import SAMPLE_RATE
from auricle.checkpoints.prompt import PromptFormat
from auricle.processor.session.actions import Decode
from auricle.processor.session.state_machine import SessionStateMachine
from auricle.protocol.recognition import DecodeReply

# Sends a decode; the second argument is whether the reply has log probabilities.
Request = Callable[[Decode, bool], Awaitable[DecodeReply]]


# Keeps words of a client's context out of text that the audio alone contradicts. No I/O.
#
# Speech LLMs write words of their context even where the speaker said something else, or was
# silent. So if an answer has a word of the context that is new in this segment, the same audio is
# decoded again without the context. Words in both answers are accepted. Where the answers differ,
# the word stays if the model was unsure without the context: resolving such words is the purpose
# of context. The word is a leak if, without the context, the model is sure of another word or of
# none. Then the answer without the context counts, and the rest of the segment is decoded without.
#
# Words of the context are: each word of a list entry (between commas, semicolons or line ends,
# `_MOST_WORDS` at most), and words with a capital or a digit in running text. Otherwise a sentence
# such as "a talk about cars" would cause a second decode of every segment, for its "a".

_MOST_WORDS = 4  # of an entry of a list
_BETWEEN = re.compile(r"[,;\n]")
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
# The probability that each word of the answer without the context must have to replace the answer
# with it. Chosen in training voices (`python -m benchmarks.keywords --voices seen`).
SURE = 0.8


@dataclass(frozen=True)
class SpokenWord:
    """A word of an answer, lower case, and the probability of its least probable token."""

    text: str
    probability: float


class ContextGuard:
    """Guards the open segment of one session."""

    def __init__(self, context: str, sure: float = SURE) -> None:
        self._names = names(context)
        self._sure = sure
        self._heard: set[str] = set()

    def start_segment(self) -> None:
        """Forget the words of the previous segment."""
        self._heard.clear()

    def doubts(self, text: str) -> bool:
        """Whether an answer has a word of the context that is new in this segment."""
        return bool(self._names) and not self._new(_plain(text)) <= self._heard

    def believes(self, text: str, without: Sequence[SpokenWord]) -> bool:
        """Whether a doubted answer is accepted; `without` is the answer without the context."""
        said = _plain(text)
        if not all(self._stands(*block) for block in _differences(said, without)):
            return False
        self._heard |= self._new(said)
        return True

    def _new(self, words: Iterable[str]) -> frozenset[str]:
        return self._names.intersection(words)

    def _stands(self, said: Sequence[str], without: Sequence[SpokenWord]) -> bool:
        """Whether words are kept although the answer without the context has others."""
        if not self._new(said):
            return True
        return bool(without) and min(word.probability for word in without) < self._sure


def names(context: str) -> frozenset[str]:
    """Return the words of a context that are guarded, lower case."""
    found: set[str] = set()
    for entry in _BETWEEN.split(context):
        words = _WORD.findall(entry)
        listed = len(words) <= _MOST_WORDS
        found |= {word.lower() for word in words if listed or not word.islower()}
    return frozenset(found)


def spoken_words(pieces: Iterable[tuple[bytes, float]]) -> list[SpokenWord]:
    """Return the words of an answer from its tokens' bytes and log probabilities."""
    data, scores = bytearray(), []
    for piece, logprob in pieces:
        data += piece
        scores += [logprob] * len(piece)
    text = data.decode(errors="replace")
    at = [0]
    for character in text:
        at.append(at[-1] + len(character.encode()))
    return [
        SpokenWord(
            found[0].lower(),
            math.exp(min(scores[at[found.start()] : at[found.end()]], default=0.0)),
        )
        for found in _WORD.finditer(text)
    ]


def _plain(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _differences(
    said: Sequence[str], without: Sequence[SpokenWord]
) -> list[tuple[Sequence[str], Sequence[SpokenWord]]]:
    """Return the parts in which two answers differ."""
    other = [word.text for word in without]
    matcher = SequenceMatcher(None, said, other, autojunk=False)
    return [
        (said[a:b], without[c:d]) for kind, a, b, c, d in matcher.get_opcodes() if kind != "equal"
    ]


class GuardedDecodes:
    """Decodes of one session under its language constraint and context guard, one at a time."""

    def __init__(
        self,
        session: SessionStateMachine,
        prompt: PromptFormat,
        language: str | None,
        constraint: LanguageConstraint,
        guard: ContextGuard,
    ) -> None:
        """`language` is the one that the prompt forces."""
        self._session = session
        self._prompt = prompt
        self._language = language
        self._constraint = constraint
        self._guard = guard

    async def reply(self, decode: Decode, *, scored: bool) -> DecodeReply:
        """Return the accepted answer, with log probabilities if `scored`.

        If context leaked into it, the rest of the segment is decoded without context.
        """
        reply = await self._constraint.reply(decode, scored)
        head = decode.task.plain_head
        if head is None or not self._guard.doubts(self._text(reply)):
            return reply
        without = replace(decode, task=replace(decode.task, head=head, draft=()))
        other = await self._constraint.reply(without, True)
        if self._guard.believes(self._text(reply), self._words(other)):
            return reply
        self._session.distrust_context()
        return other

    def start_segment(self) -> None:
        """Begin the next segment."""
        self._guard.start_segment()

    def _text(self, reply: DecodeReply) -> str:
        return self._prompt.answer(self._committed + reply.tokens, self._language)[1]

    def _words(self, reply: DecodeReply) -> list[SpokenWord]:
        """Return the words of an answer; committed tokens are certain."""
        logprobs = (0.0,) * len(self._committed) + reply.logprobs
        pieces = self._prompt.pieces(self._committed + reply.tokens, self._language)
        return spoken_words((data, logprobs[at]) for at, data in pieces)

    @property
    def _committed(self) -> tuple[int, ...]:
        return self._session.segment.stability.committed


# Constrains answers to the languages that a client named.
#
# An answer begins with its language. If the model writes a language that was not named, the segment
# is decoded once for each named language with the answer's beginning forced, and the answer with
# the highest mean log probability counts. If the checkpoint detects the language as one token in a
# separate request, only the tokens of the named languages are allowed there.
#
# This is repeated at each decode until the language is committed, because the first second of a
# segment often gives a wrong language.

# A language detected in this number of samples is not detected again in the segment.
_ENOUGH = 3 * SAMPLE_RATE
# A less probable language counts only if the previous segment had none.
_PROBABLE = 0.6


@dataclass(frozen=True)
class _Detected:
    """The language detected in the first `samples` samples of `segment`."""

    language: str
    segment: int
    samples: int


class LanguageConstraint:
    """Decodes of one session, one at a time, in one of its named languages; in any without names.

    `request` sends a decode.
    """

    def __init__(
        self,
        session: SessionStateMachine,
        prompt: PromptFormat,
        language: str | None,
        languages: tuple[str, ...],
        request: Request,
        before: str = "",
    ) -> None:
        """`language` is the one that the prompt forces. `before` is the language of the session's
        last text, and `languages` are the named ones, all by the checkpoint's names."""
        self._session = session
        self._prompt = prompt
        self._languages = () if language else languages
        self._request = request
        self._detects = language is None and prompt.detects_language
        known = before and before in (self._languages or (before,))
        self._last = _Detected(before, -1, 0) if known else None

    async def reply(self, decode: Decode, scored: bool) -> DecodeReply:
        """Return the answer to a decode, with log probabilities if `scored`.

        Its tokens follow the committed ones, also if its beginning was forced.
        """
        if self._detects and not self._committed:
            opening = self._prompt.opening_in(await self._detected(decode))
            return await self._opened(decode, opening, scored=scored)
        reply = await self._request(decode, scored)
        if self._detects or not self._languages:
            return reply
        named, _ = self._prompt.answer((*self._committed, *reply.tokens), None)
        if not named or named in self._languages:
            return reply
        return await self._surest(decode, reply)

    async def _detected(self, decode: Decode) -> str:
        """Return the language that is spoken in the segment."""
        last = self._last
        if last is not None and last.segment == decode.segment and last.samples >= _ENOUGH:
            return last.language
        # Without context, whose language may be another one.
        task = replace(
            decode.task,
            head=(),
            draft=(),
            max_tokens=1,
            allowed=self._prompt.language_tokens(self._languages),
        )
        reply = await self._request(replace(decode, task=task), True)
        language = self._prompt.language_of(reply.tokens[0])
        if last is not None and exp(reply.logprobs[0]) < _PROBABLE:
            language = last.language
        self._last = _Detected(language, decode.segment, decode.samples)
        return language

    async def _surest(self, decode: Decode, heard: DecodeReply) -> DecodeReply:
        """Return the most probable answer in a named language; `heard` if another language is
        committed already."""
        openings = [self._prompt.opening_in(language) for language in self._languages]
        found = [
            (await self._opened(decode, opening, scored=True), opening)
            for opening in openings
            if self._goes_on(opening)
        ]
        return max(found, key=self._sureness)[0] if found else heard

    async def _opened(
        self, decode: Decode, opening: tuple[int, ...], *, scored: bool
    ) -> DecodeReply:
        """Decode with the answer's beginning forced; the reply's tokens include it."""
        rest, task = self._rest(opening), decode.task
        follows = task.draft[: len(rest)] == rest
        draft = task.draft[len(rest) :] if follows else ()
        given = replace(task, tail=(*task.tail, *rest), draft=draft)
        reply = await self._request(replace(decode, task=given), scored)
        logprobs = (*(0.0 for _ in rest), *reply.logprobs) if scored else ()
        return replace_struct(reply, tokens=(*rest, *reply.tokens), logprobs=logprobs)

    def _goes_on(self, opening: tuple[int, ...]) -> bool:
        """Whether an answer with this beginning continues the committed tokens."""
        committed = self._committed
        return bool(opening) and opening[: len(committed)] == committed

    def _rest(self, opening: tuple[int, ...]) -> tuple[int, ...]:
        return opening[len(self._committed) :]

    @property
    def _committed(self) -> tuple[int, ...]:
        return self._session.segment.stability.committed

    def _sureness(self, found: tuple[DecodeReply, tuple[int, ...]]) -> float:
        """Return the mean log probability of the tokens that were not forced."""
        reply, opening = found
        written = reply.logprobs[len(self._rest(opening)) :]
        return fsum(written) / len(written) if written else -inf
