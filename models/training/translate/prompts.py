"""Token ids of a translator's prompts and answers; texts never become special tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

Tokenizer = Any

_TASK = "Translate what the user says from English to Spanish. Answer with the translation only."
MORE = " …"  # after an incomplete source


class Turn(NamedTuple):
    """A source and its translation, which begins with `given`; `more`: the source is incomplete."""

    source: str
    target: str
    given: str = ""
    more: bool = False


def instruction(terms: Sequence[tuple[str, str]] = ()) -> str:
    """Return the system's message."""
    if not terms:
        return _TASK
    return f"{_TASK}\nTerms: " + "; ".join(f"{source} = {target}" for source, target in terms)


class Prompts:
    """Builds prompts and answers with one tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._start, self._end = tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
        self._line = self.plain("\n")
        self._roles = {
            role: [self._start, *self.plain(role), *self._line]
            for role in ("system", "user", "assistant")
        }

    def plain(self, text: str) -> list[int]:
        """Encode without special tokens, even if the text contains them."""
        ids: list[int] = self._tokenizer(text, split_special_tokens=True).input_ids
        return ids

    def system(self, terms: Sequence[tuple[str, str]] = ()) -> list[int]:
        return [*self._roles["system"], *self.plain(instruction(terms)), self._end, *self._line]

    def asked(self, turn: Turn) -> list[int]:
        """The user's message, and the start of the model's."""
        source = turn.source + (MORE if turn.more else "")
        said = [*self._roles["user"], *self.plain(source), self._end, *self._line]
        return [*said, *self._roles["assistant"], *self.plain(turn.given)]

    def answered(self, turn: Turn) -> list[int]:
        """The rest of the model's message, with its end token."""
        rest = turn.target.removeprefix(turn.given)
        return [*self.plain(rest), self._end]

    def closed(self) -> list[int]:
        """The tokens between the end of an answer and the next turn."""
        return self._line
