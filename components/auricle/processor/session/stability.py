"""Decides which prefix of a hypothesis is committed. No I/O, no clock.

As in the published streaming algorithm, the last tokens of every hypothesis are rolled back
and decoded again, and the first decodes of a segment commit nothing. The committed prefix is
forced on the next decode, so committed text does not change. Unlike there, it never shrinks.
Tokens that have not changed while enough audio arrived are committed with fewer tokens after
them, because in slow speech `rollback_tokens` further tokens take seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from auricle.transcript.words import pieces

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class CommitRules:
    """When a token of the hypothesis is committed, from decode number `unfixed_decodes` on.

    It is committed if at least `rollback_tokens` follow it; or if it and all tokens before it
    have not changed for `settled_samples` of audio and at least `open_tokens` follow it.
    """

    rollback_tokens: int
    open_tokens: int
    settled_samples: int
    unfixed_decodes: int

    def early(self, decodes: int) -> bool:
        """Return whether a segment's decode number `decodes`, from 1, commits nothing."""
        return decodes < self.unfixed_decodes


@dataclass(frozen=True)
class Stability:
    """The state after `decodes` decodes of one segment.

    `tokens` is the last hypothesis and `committed` a prefix of it. `established[i]` is the
    offset, in samples, of the decode since which tokens 0 to i have not changed.
    """

    tokens: Tokens = ()
    committed: Tokens = ()
    established: tuple[int, ...] = ()
    decodes: int = 0

    @property
    def committed_before(self) -> int:
        """The offset, in samples, by which all committed words had been spoken; 0 if none."""
        return self.established[len(self.committed) - 1] if self.committed else 0

    def after(
        self,
        generated: Tokens,
        offset: int,
        *,
        rules: CommitRules,
        ends_whole: Callable[[Tokens], bool],
    ) -> Stability:
        """Return the state after a decode of `offset` samples.

        `generated` are the tokens after the forced prefix `committed`. `ends_whole(tokens)`
        returns False if tokens end inside a character; text is not committed there.
        """
        tokens = self.committed + generated
        same = 0
        while same < min(len(tokens), len(self.tokens)) and tokens[same] == self.tokens[same]:
            same += 1
        established = self.established[:same] + (offset,) * (len(tokens) - same)
        committed = self.committed
        if not rules.early(self.decodes + 1):
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


def stable_text(text: str, committed: str, held: int, language: str, *, early: bool = False) -> str:
    """Return `text` without its last `held` words, but with `committed`, its beginning.

    This is hold-n of Liu et al., Low-Latency Sequence-to-Sequence Speech Recognition and
    Translation by Partial Hypothesis Selection (2020), for displays only: the decoder keeps all
    words. With held words, nothing more than `committed` is left of an `early` text, which a
    segment's first decodes give: most of Whisper's changes are in the text of its first second.
    """
    if not held:
        return text
    words = [] if early else [piece.text for piece in pieces(text, language)]
    kept = "".join(words[:-held]).rstrip()
    return kept if len(kept) > len(committed) else committed


def resumed(committed: Tokens, committed_before: int, unfixed_decodes: int) -> Stability:
    """Return the state in which another processor continues: only committed tokens are kept.

    For `committed_before` (samples) see `Stability.committed_before`.
    """
    if not committed:
        return Stability()
    established = (committed_before,) * len(committed)
    return Stability(committed, committed, established, unfixed_decodes)


# Recognises answers in which a model repeats itself, as it does without end. No I/O.
#
# Such an answer must not be committed, as it would be forced on all decodes that follow.

# Repetitions of the same tokens are a loop from this count and this total length on: people repeat
# a word a few times, and dictate several equal digits.
_REPETITIONS = 4
_REPEATED_TOKENS = 16
_LONGEST_PERIOD = 64


def loop_start(tokens: Sequence[int]) -> int | None:
    """Return the start of the first repetition that lasts until the end, or None."""
    for period in range(1, min(_LONGEST_PERIOD, len(tokens) // _REPETITIONS) + 1):
        equal = 0
        while equal < len(tokens) - period and tokens[-1 - equal] == tokens[-1 - equal - period]:
            equal += 1
        repeated = equal + period
        if repeated >= max(_REPETITIONS * period, _REPEATED_TOKENS):
            return len(tokens) - repeated + period
    return None


def sound_tokens(tokens: Sequence[int], whole: bool, before: Stability) -> int:
    """Return the number of valid tokens of an answer: all of them, or the tokens before a loop.

    Without `whole`, the answer met its limit. If nothing is repeated, its common prefix with the
    hypothesis `before` is valid.
    """
    if (start := loop_start(tokens)) is not None:
        return start
    if whole:
        return len(tokens)
    known = before.tokens[len(before.committed) :]
    same = (one == other for one, other in zip(tokens, known, strict=False))
    return next((at for at, equal in enumerate(same) if not equal), min(len(tokens), len(known)))
