"""The log probabilities of a segment's tokens, decode after decode. No I/O."""

from __future__ import annotations

from typing import Protocol

from auricle.messages.sessions import ScoredToken

Tokens = tuple[int, ...]


class Pieces(Protocol):
    """The part of `checkpoint.prompt.PromptFormat` that is needed here."""

    def pieces(self, tokens: Tokens, language: str | None) -> list[tuple[int, bytes]]:
        """Return the text of an answer token by token: each one's index and its bytes."""
        ...


class Scores:
    """Keeps each token's log probability from the decode that generated it.

    Committed tokens are not generated again. Those that another processor committed are not
    known here.
    """

    def __init__(self, prompt: Pieces, language: str | None) -> None:
        """`language` is the one forced by the prompt."""
        self._prompt = prompt
        self._language = language
        self._logprobs: tuple[float | None, ...] = ()
        self._tokens: Tokens = ()

    def decoded(self, committed: Tokens, tokens: Tokens, logprobs: tuple[float, ...]) -> None:
        """Take the result of a decode: `tokens` follow those `committed` before it.

        A segment's first decode follows none, or those of another processor.
        """
        known = self._logprobs[: len(committed)]
        self._logprobs = known + (None,) * (len(committed) - len(known)) + logprobs
        self._tokens = committed + tokens

    def pieces(self) -> list[tuple[int, bytes, float | None]]:
        """Return the text of the last decode token by token: index, bytes, log probability."""
        pieces = self._prompt.pieces(self._tokens, self._language)
        return [(at, data, self._logprobs[at]) for at, data in pieces]

    def tokens(self) -> tuple[ScoredToken, ...]:
        """Return the tokens of that text; empty if the log probability of one is not known."""
        pieces = [(data, logprob) for _, data, logprob in self.pieces()]
        known = [ScoredToken(data, logprob) for data, logprob in pieces if logprob is not None]
        return tuple(known) if len(known) == len(pieces) else ()
