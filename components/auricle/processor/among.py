"""Answers in one of the languages that a client named, where it named several.

An answer begins with the language that was heard. If that is none of the named ones, the segment
is decoded once more for each of them, with the answer's beginning given, and goes on in the one in
which the model is surest of what it wrote.
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
    """The answers of one session, one at a time, in one of `languages`; in any if there are none.

    A segment's language is chosen once; what was committed of it stays.
    """

    def __init__(
        self, session: Session, prompt: PromptFormat, languages: tuple[str, ...], ask: Ask
    ) -> None:
        """`languages` are names as the checkpoint has them."""
        self._session = session
        self._prompt = prompt
        self._languages = languages
        self._ask = ask
        self._segment = -1
        self._opening: tuple[int, ...] = ()  # that was chosen for this segment

    async def of(self, decode: Decode, scored: bool) -> DecodeReply:
        """Return the answer to a decode, with log probabilities if `scored`.

        Its tokens follow the committed ones, whether the model began it or was given its beginning.
        """
        if not self._languages:
            return await self._ask(decode, scored)
        if decode.segment != self._segment:
            self._segment, self._opening = decode.segment, ()
        if self._opening:
            return await self._opened(decode, self._opening, scored)
        reply = await self._ask(decode, scored)
        named, _ = self._prompt.answer((*self._committed, *reply.tokens), None)
        if not named or named in self._languages:
            return reply
        return await self._surest(decode, reply)

    async def _surest(self, decode: Decode, heard: DecodeReply) -> DecodeReply:
        """Choose the segment's language; return `heard` if another one is committed already."""
        openings = [self._prompt.opening_in(language) for language in self._languages]
        found = [
            (await self._opened(decode, opening, True), opening)
            for opening in openings
            if self._goes_on(opening)
        ]
        if not found:
            return heard
        best, self._opening = max(found, key=self._sureness)
        return best

    async def _opened(self, decode: Decode, opening: tuple[int, ...], scored: bool) -> DecodeReply:
        """Decode an answer that begins with these tokens, which are in front of the reply's."""
        rest, task = self._rest(opening), decode.task
        follows = task.draft[: len(rest)] == rest
        draft = task.draft[len(rest) :] if follows else ()
        given = with_changes(task, tail=(*task.tail, *rest), draft=draft)
        reply = await self._ask(with_changes(decode, task=given), scored)
        logprobs = (*(0.0 for _ in rest), *reply.logprobs) if reply.logprobs else ()
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
