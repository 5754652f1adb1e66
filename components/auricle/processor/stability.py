"""Which part of a hypothesis is committed. Pure logic.

As in the published streaming algorithm the last tokens of every hypothesis are
rolled back and decoded again, and the first decodes of a segment commit
nothing. What is left is the forced prefix of the next decode, so committed
text cannot change; here it also never shrinks. And tokens that came out the
same for some time while more audio came in need not wait to be followed by
that many others: in slow speech that would take seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class CommitRules:
    """When a token of the hypothesis is committed, after `unfixed_decodes` decodes.

    If at least `rollback_tokens` follow it; or if it and all before it have not
    changed for `settled_samples` and at least `open_tokens` follow it.
    """

    rollback_tokens: int
    open_tokens: int
    settled_samples: int
    unfixed_decodes: int


@dataclass(frozen=True)
class Stability:
    """The state after some decodes of one segment.

    `tokens` is the last hypothesis, `committed` a prefix of it. `established[i]`
    is the decode offset (samples) since which tokens 0…i have not changed.
    """

    tokens: Tokens = ()
    committed: Tokens = ()
    established: tuple[int, ...] = ()
    decodes: int = 0

    @property
    def committed_before(self) -> int:
        """Sample offset by which all committed words had been spoken; 0 if none."""
        return self.established[len(self.committed) - 1] if self.committed else 0

    def after(
        self,
        generated: Tokens,
        offset: int,
        *,
        rules: CommitRules,
        ends_whole: Callable[[Tokens], bool],
    ) -> Stability:
        """The state after a decode at `offset` that was forced to begin with `committed`.

        `ends_whole(tokens)` says whether tokens do not end inside a character.
        """
        tokens = self.committed + generated
        same = 0
        while same < min(len(tokens), len(self.tokens)) and tokens[same] == self.tokens[same]:
            same += 1
        established = self.established[:same] + (offset,) * (len(tokens) - same)
        committed = self.committed
        if self.decodes + 1 >= rules.unfixed_decodes:
            settled = sum(offset - since >= rules.settled_samples for since in established)
            keep = max(
                len(committed),
                len(tokens) - rules.rollback_tokens,
                min(settled, len(tokens) - rules.open_tokens),
            )
            while keep > len(committed) and not ends_whole(tokens[:keep]):
                keep -= 1
            committed = tokens[:keep]
        return Stability(tokens, committed, established, self.decodes + 1)


def resumed(committed: Tokens, unfixed_decodes: int) -> Stability:
    """The state to go on from on another processor: only what was committed is kept."""
    if not committed:
        return Stability()
    return Stability(committed, committed, (0,) * len(committed), unfixed_decodes)
