"""The log probabilities of a segment's tokens, decode after decode. No I/O."""

from __future__ import annotations

from typing import Protocol

from auricle.messages import ScoredToken

Tokens = tuple[int, ...]


class Pieces(Protocol):
    """The part of `checkpoint.prompt.PromptFormat` that is needed here."""

    def pieces(self, tokens: Tokens, language: str | None) -> list[tuple[int, bytes]]:
        """Return the text of an answer token by token: each one's index and its bytes."""
        ...


class Scores:
    """Keeps each token's log probability from the decode that generated it.

    Committed tokens are not generated again. Those that another processor committed are not
    known here, and then the segment has no scores.
    """

    def __init__(self, prompt: Pieces, language: str | None) -> None:
        """`language` is the one forced by the prompt."""
        self._prompt = prompt
        self._language = language
        self._logprobs: tuple[float, ...] = ()
        self._tokens: Tokens = ()
        self._ended: dict[int, tuple[ScoredToken, ...]] = {}

    def decoded(self, committed: Tokens, tokens: Tokens, logprobs: tuple[float, ...]) -> None:
        """Take the result of a decode: `tokens` follow those `committed` before it."""
        self._logprobs = self._logprobs[: len(committed)] + logprobs
        self._tokens = committed + tokens

    def end_segment(self, number: int) -> None:
        """The last decode was the last one of segment `number`."""
        if len(self._logprobs) == len(self._tokens):
            pieces = self._prompt.pieces(self._tokens, self._language)
            self._ended[number] = tuple(
                ScoredToken(data, self._logprobs[at]) for at, data in pieces
            )
        self._logprobs = ()

    def of(self, number: int) -> tuple[ScoredToken, ...]:
        """Return the tokens of segment `number`, which has ended; forgets them."""
        return self._ended.pop(number, ())
