"""The tokens of a text and their log probabilities, as OpenAI's protocols say them. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from auricle.messages.sessions import ScoredToken

Tokens = tuple[ScoredToken, ...]


def joined(texts: Iterable[tuple[str, Tokens]]) -> Tokens:
    """Return the tokens of texts that are joined by spaces; empty if those of one are not known."""
    found: list[ScoredToken] = []
    for text, tokens in texts:
        if text and not tokens:
            return ()
        for token in tokens:
            between = bool(found) and token is tokens[0] and not token.data.startswith(b" ")
            found.append(ScoredToken(b" " + token.data, token.logprob) if between else token)
    return tuple(found)


def entries(tokens: Sequence[ScoredToken]) -> list[dict[str, object]]:
    """Return what is said of each token; a part of a character has no text of its own."""
    return [
        {
            "token": token.data.decode(errors="replace"),
            "bytes": list(token.data),
            "logprob": token.logprob,
        }
        for token in tokens
    ]
