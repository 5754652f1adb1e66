"""Answers in one of the languages that a client named, where it named several.

An answer begins with the language that was heard. If that is none of the named ones, the segment
is decoded once more for each of them, with the answer's beginning given, and the answer that counts
is the one in which the model is surest of what it wrote. So it is at each decode until the language
is committed: after the first second of a segment it is often heard wrong.
"""

from __future__ import annotations

from dataclasses import replace as with_changes
from math import fsum, inf

from msgspec.structs import replace

from auricle.checkpoint.prompt import PromptFormat
from auricle.messages import DecodeReply
from auricle.processor.actions import Decode
from auricle.processor.ask import Ask
from auricle.processor.session import Session


class AmongLanguages:
    """The answers of one session, one at a time, in one of `languages`; in any if none is named."""

    def __init__(
        self, session: Session, prompt: PromptFormat, languages: tuple[str, ...], ask: Ask
    ) -> None:
        """`languages` are names as the checkpoint has them."""
        self._session = session
        self._prompt = prompt
        self._languages = languages
        self._ask = ask

    async def of(self, decode: Decode, scored: bool) -> DecodeReply:
        """Return the answer to a decode, with log probabilities if `scored`.

        Its tokens follow the committed ones, whether the model began it or was given its beginning.
        """
        reply = await self._ask(decode, scored)
        if not self._languages:
            return reply
        named, _ = self._prompt.answer((*self._committed, *reply.tokens), None)
        if not named or named in self._languages:
            return reply
        return await self._surest(decode, reply)

    async def _surest(self, decode: Decode, heard: DecodeReply) -> DecodeReply:
        """Return the surest of the answers in the named languages, or `heard` if another language
        is committed already.
        """
        openings = [self._prompt.opening_in(language) for language in self._languages]
        found = [
            (await self._opened(decode, opening), opening)
            for opening in openings
            if self._goes_on(opening)
        ]
        return max(found, key=self._sureness)[0] if found else heard

    async def _opened(self, decode: Decode, opening: tuple[int, ...]) -> DecodeReply:
        """Decode an answer that begins with these tokens, which are in front of the reply's."""
        rest, task = self._rest(opening), decode.task
        follows = task.draft[: len(rest)] == rest
        draft = task.draft[len(rest) :] if follows else ()
        given = with_changes(task, tail=(*task.tail, *rest), draft=draft)
        reply = await self._ask(with_changes(decode, task=given), True)
        logprobs = (*(0.0 for _ in rest), *reply.logprobs)
        return replace(reply, tokens=(*rest, *reply.tokens), logprobs=logprobs)

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
