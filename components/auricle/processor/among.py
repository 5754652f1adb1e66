"""Answers in the language that is spoken, or in one of those that a client named.

An answer begins with its language. Where the model writes it itself and it is none of the named
ones, the segment is decoded once more for each of them, with the answer's beginning given, and the
answer that counts is the one in which the model is surest of what it wrote. Where a language is a
token that a request of its own detects, only the named ones are possible there.

So it is at each decode until the language is committed: after the first second of a segment it is
often detected wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, fsum, inf

from msgspec.structs import replace as replace_struct

from auricle.audio.constants import SAMPLE_RATE
from auricle.checkpoint.prompt import PromptFormat
from auricle.messages.decoding import DecodeReply
from auricle.processor.actions import Decode
from auricle.processor.ask import Ask
from auricle.processor.session import Session

# A language that was detected in so many samples is not detected again in their segment.
_ENOUGH = 3 * SAMPLE_RATE
# A less probable language counts only if the segment before had none.
_PROBABLE = 0.6


@dataclass(frozen=True)
class _Detected:
    """A language, and in how many samples of which segment it was detected."""

    language: str
    segment: int
    samples: int


class AmongLanguages:
    """The answers of one session, one at a time, in one of `languages`; in any if none is named."""

    def __init__(
        self,
        session: Session,
        prompt: PromptFormat,
        language: str | None,
        languages: tuple[str, ...],
        ask: Ask,
        before: str = "",
    ) -> None:
        """`language` is forced by the prompt. `languages` are names as the checkpoint has them, as
        `before` is, the language of the session's text so far."""
        self._session = session
        self._prompt = prompt
        self._languages = languages
        self._ask = ask
        self._detects = language is None and prompt.detects_language
        known = before and before in (languages or (before,))
        self._last = _Detected(before, -1, 0) if known else None

    async def of(self, decode: Decode, scored: bool) -> DecodeReply:
        """Return the answer to a decode, with log probabilities if `scored`.

        Its tokens follow the committed ones, whether the model began it or was given its beginning.
        """
        if self._detects and not self._committed:
            opening = self._prompt.opening_in(await self._detected(decode))
            return await self._opened(decode, opening, scored=scored)
        reply = await self._ask(decode, scored)
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
        # Without context, which is in a language that need not be this one.
        task = replace(
            decode.task,
            head=(),
            draft=(),
            max_tokens=1,
            allowed=self._prompt.language_tokens(self._languages),
        )
        reply = await self._ask(replace(decode, task=task), True)
        language = self._prompt.language_of(reply.tokens[0])
        if last is not None and exp(reply.logprobs[0]) < _PROBABLE:
            language = last.language
        self._last = _Detected(language, decode.segment, decode.samples)
        return language

    async def _surest(self, decode: Decode, heard: DecodeReply) -> DecodeReply:
        """Return the surest of the answers in the named languages, or `heard` if another language
        is committed already.
        """
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
        """Decode an answer that begins with these tokens, which are in front of the reply's."""
        rest, task = self._rest(opening), decode.task
        follows = task.draft[: len(rest)] == rest
        draft = task.draft[len(rest) :] if follows else ()
        given = replace(task, tail=(*task.tail, *rest), draft=draft)
        reply = await self._ask(replace(decode, task=given), scored)
        logprobs = (*(0.0 for _ in rest), *reply.logprobs) if scored else ()
        return replace_struct(reply, tokens=(*rest, *reply.tokens), logprobs=logprobs)

    def _goes_on(self, opening: tuple[int, ...]) -> bool:
        """Whether an answer may begin so after what is committed."""
        committed = self._committed
        return bool(opening) and opening[: len(committed)] == committed

    def _rest(self, opening: tuple[int, ...]) -> tuple[int, ...]:
        return opening[len(self._committed) :]

    @property
    def _committed(self) -> tuple[int, ...]:
        return self._session.segment.stability.committed

    def _sureness(self, found: tuple[DecodeReply, tuple[int, ...]]) -> float:
        """Return the mean log probability of the tokens that the model wrote itself."""
        reply, opening = found
        written = reply.logprobs[len(self._rest(opening)) :]
        return fsum(written) / len(written) if written else -inf
