"""What of a segment's translation is committed while its source grows. No I/O, no clock.

Each time more of the source is known, it is translated again from what is committed on. Two rules
say how much of such a hypothesis will stay:

- agreement: what two successive hypotheses have in common (LocalAgreement-2);
- mask: all but its last words (mask-k).

The last word of a hypothesis is never committed before the source is whole: its ending and its
punctuation depend on what comes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile

from auricle.translation.words import is_cut, joined, last_cut

# Returns how many characters of the second hypothesis stay, after the first; it may be fewer than
# are committed.
Rule = Callable[[str, str], int]


def agreement(before: str, now: str) -> int:
    """Keep the whole words that both hypotheses begin with."""
    same = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False))
    )
    at = last_cut(now, same)
    # What both have in common may end in a word of the other one.
    return at if not at or is_cut(before, at) else last_cut(now, at - 1)


def mask(words: int) -> Rule:
    """Return the rule that keeps all but the last `words` words, at least one."""

    def keep(_before: str, now: str) -> int:
        at = len(now)
        for _ in range(max(words, 1)):
            at = last_cut(now, at - 1)
        return at

    return keep


@dataclass(frozen=True)
class Growing:
    """The translation of one segment: `committed` stays, and begins the last `hypothesis`."""

    committed: str = ""
    hypothesis: str = ""

    @property
    def partial(self) -> str:
        """What follows `committed` and may change."""
        return self.hypothesis[len(self.committed) :]

    def after(self, text: str, rule: Rule, *, whole: bool) -> Growing:
        """Return the translation after a hypothesis that goes on with `text` after `committed`.

        With `whole` it is the last one, and all of it is committed.
        """
        now = joined(self.committed, text).rstrip()
        if whole:
            return Growing(now, now)
        keep = max(rule(self.hypothesis, now), len(self.committed))
        return Growing(now[:keep], now)
