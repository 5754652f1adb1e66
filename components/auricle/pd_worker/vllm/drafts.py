"""What of a draft is still worth verifying after some output. Pure."""

from __future__ import annotations

from collections.abc import Sequence

# How far ahead an output token is looked for in the draft after they disagreed.
_LOOK_AHEAD = 3


def rest_of_draft(draft: Sequence[int], output: Sequence[int]) -> list[int]:
    """Draft tokens that may follow `output`.

    Where they disagree, the output's token is looked for a little further on (the
    draft had words too many); if it is not there it counts as having replaced one
    token of the draft, until the next one shows that it was put in before it.
    """
    at = 0
    replaced = False
    for token in output:
        start = at - 1 if replaced else at
        ahead = list(draft[start : at + 1 + _LOOK_AHEAD])
        replaced = token not in ahead and at < len(draft)
        at = start + ahead.index(token) + 1 if token in ahead else min(at + 1, len(draft))
    return list(draft[at:])
