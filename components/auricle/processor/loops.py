"""Recognises answers in which a model repeats itself, as it does without end. No I/O.

Such an answer must not be committed, as it would be forced on all decodes that follow.
"""

from __future__ import annotations

from collections.abc import Sequence

from auricle.processor.stability import Stability

# So many repetitions of the same tokens are a loop, if they are so many tokens together: people
# repeat a word a few times, and say a number of equal digits.
_REPETITIONS = 4
_REPEATED_TOKENS = 16
_LONGEST_PERIOD = 64


def loop_start(tokens: Sequence[int]) -> int | None:
    """Return where the first repetition begins that goes on to the end; None if there is none."""
    for period in range(1, min(_LONGEST_PERIOD, len(tokens) // _REPETITIONS) + 1):
        equal = 0
        while equal < len(tokens) - period and tokens[-1 - equal] == tokens[-1 - equal - period]:
            equal += 1
        repeated = equal + period
        if repeated >= max(_REPETITIONS * period, _REPEATED_TOKENS):
            return len(tokens) - repeated + period
    return None


def sound_tokens(tokens: Sequence[int], whole: bool, before: Stability) -> int:
    """Return how many tokens of an answer count: all, or those before a loop.

    Without `whole`, the answer met its limit; where nothing is repeated, what it has in common with
    the hypothesis `before` counts.
    """
    if (start := loop_start(tokens)) is not None:
        return start
    if whole:
        return len(tokens)
    known = before.tokens[len(before.committed) :]
    same = (one == other for one, other in zip(tokens, known, strict=False))
    return next((at for at, equal in enumerate(same) if not equal), min(len(tokens), len(known)))
