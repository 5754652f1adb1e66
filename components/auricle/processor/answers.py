"""The answer of a decode, asked for once more where the client's context may have written it."""

from __future__ import annotations

from dataclasses import replace

from auricle.checkpoint.prompt import PromptFormat
from auricle.messages.decoding import DecodeReply
from auricle.processor.actions import Decode
from auricle.processor.ask import Ask
from auricle.processor.context_guard import ContextGuard, SpokenWord, spoken_words
from auricle.processor.session import Session


class Answers:
    """Those of one session, one at a time; see `context_guard.py`."""

    def __init__(
        self,
        session: Session,
        prompt: PromptFormat,
        language: str | None,
        guard: ContextGuard,
        ask: Ask,
    ) -> None:
        """`language` is the one forced by the prompt."""
        self._session = session
        self._prompt = prompt
        self._language = language
        self._guard = guard
        self._ask = ask

    async def of(self, decode: Decode, *, scored: bool) -> DecodeReply:
        """Return the answer that counts, with log probabilities if `scored`.

        If the one with the context does not, the rest of the segment is decoded without it.
        """
        reply = await self._ask(decode, scored)
        head = decode.task.plain_head
        if head is None or not self._guard.doubts(self._text(reply)):
            return reply
        without = replace(decode, task=replace(decode.task, head=head, draft=()))
        other = await self._ask(without, True)
        if self._guard.believes(self._text(reply), self._words(other)):
            return reply
        self._session.distrust_context()
        return other

    def start_segment(self) -> None:
        """The segment has its last answer."""
        self._guard.start_segment()

    def _text(self, reply: DecodeReply) -> str:
        return self._prompt.answer(self._committed + reply.tokens, self._language)[1]

    def _words(self, reply: DecodeReply) -> list[SpokenWord]:
        """Return the words of an answer; those committed before are in both, so certain."""
        logprobs = (0.0,) * len(self._committed) + reply.logprobs
        pieces = self._prompt.pieces(self._committed + reply.tokens, self._language)
        return spoken_words((data, logprobs[at]) for at, data in pieces)

    @property
    def _committed(self) -> tuple[int, ...]:
        return self._session.segment.stability.committed
