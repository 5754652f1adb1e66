"""Aligns a draft with the output generated so far. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

# How many draft tokens ahead an output token is searched for after a mismatch.
_LOOK_AHEAD = 3


def rest_of_draft(draft: Sequence[int], output: Sequence[int]) -> list[int]:
    """Return the draft tokens that may follow `output`.

    On a mismatch, the output token is searched for in the next draft tokens (a deletion). If
    it is not found it counts as a substitution of one draft token, until the next output
    token shows that it was an insertion.
    """
    at = 0
    replaced = False
    for token in output:
        start = at - 1 if replaced else at
        ahead = list(draft[start : at + 1 + _LOOK_AHEAD])
        replaced = token not in ahead and at < len(draft)
        at = start + ahead.index(token) + 1 if token in ahead else min(at + 1, len(draft))
    return list(draft[at:])
