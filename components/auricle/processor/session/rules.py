"""A session's rules, derived from its settings, and the interface of its prompt format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from auricle.audio.constants import SAMPLE_RATE, SETTLED
from auricle.audio.segmentation import Mark, SegmentLimits
from auricle.config.settings import ProcessorSettings
from auricle.processor.session.stability import CommitRules
from auricle.processor.session.windows import SegmentAudio
from auricle.protocol.sessions import OpenSession

# Decides where decodes take place. No I/O, no clock.
#
# Partial decodes take place on a fixed grid from the segment's start; under load grid points are
# skipped, never moved. The last one is at the segment's end (see `audio.segmentation`).


@dataclass(frozen=True)
class SegmentPolicy:
    """Where decodes take place and segments end; `grid` is the samples between two decodes."""

    grid: int
    limits: SegmentLimits

    @classmethod
    def from_seconds(
        cls, *, chunk_ms: int, pause_after: float, maximum: float, search: float
    ) -> SegmentPolicy:
        """Return the policy of a session; times are in seconds unless they say `_ms`.

        The maximum length of a segment is at least one chunk. See `SegmentLimits`.
        """
        return cls(
            grid=chunk_ms * SAMPLE_RATE // 1000,
            limits=SegmentLimits.from_seconds(
                pause_after=pause_after, maximum=max(maximum, chunk_ms / 1000), search=search
            ),
        )

    def samples_until_work(self, offset: int, *, ahead: bool) -> int:
        """Return how many samples a segment of `offset` samples needs until its next work.

        Work is due at the next grid point; with `ahead` also once the frames of the next
        second are final.
        """
        until = self.grid - offset % self.grid
        if not ahead:
            return until
        finished = max(offset - SETTLED, 0) // SAMPLE_RATE
        return min(until, (finished + 1) * SAMPLE_RATE + SETTLED - offset)


@dataclass(frozen=True)
class NextDecode:
    """Decode the segment's first `offset` samples; `ends_segment`: the text becomes final."""

    offset: int
    ends_segment: bool


def next_decode(
    audio: SegmentAudio,
    marks: Sequence[Mark],
    policy: SegmentPolicy,
    *,
    last_offset: int,
    not_before: int,
    stride: int = 1,
) -> NextDecode | None:
    """Return the decode that is due, or None if none is due.

    A partial decode is due `stride` grid points after `last_offset`. A forced cut
    never lies before `not_before`, the offset by which all committed words had been spoken:
    a word after the cut would be transcribed in both segments. Offsets are in samples from the
    segment's start.
    """
    end = policy.limits.segment_end(marks, audio.samples, audio.pcm, not_before)
    if end is not None:
        return NextDecode(end, ends_segment=True)
    latest = audio.samples // policy.grid * policy.grid
    if latest // policy.grid < last_offset // policy.grid + stride:
        return None
    return NextDecode(latest, ends_segment=False)


def first_grid_point(after: int, until: int, grid: int) -> int:
    """Return the first multiple of `grid` after sample `after`, or `until` if that comes first."""
    return min(until, (after // grid + 1) * grid)


class SessionPrompt(Protocol):
    """Builds prompts and parses answers; implemented by `checkpoint.prompt.PromptFormat`."""

    def head(self, context: str) -> tuple[int, ...]:
        """Return the token ids before the audio."""
        ...

    def tail(self, language: str | None) -> tuple[int, ...]:
        """Return the token ids between the audio and the answer."""
        ...

    def answer(self, tokens: tuple[int, ...], language: str | None) -> tuple[str, str]:
        """Return language and text of an answer or of a prefix of one."""
        ...

    def opening(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        """Return the tokens of an answer up to where its text begins; empty if there are none."""
        ...

    def whole_characters(self, tokens: tuple[int, ...]) -> bool:
        """Return False if `tokens` end inside a UTF-8 character."""
        ...


@dataclass(frozen=True)
class SessionRules:
    """The rules of a session's segmentation, commitment and answer length.

    At most `max_buffered_samples` are buffered before a push must wait. An answer has at most
    `max_tokens_per_second` tokens per second of audio, but at least `min_new_tokens` are
    allowed. A final answer with less than `min_tokens_per_second` ended early. The last
    `context_characters` of a final text are context of the next segment.
    The last `held_words` of a partial text are not sent; see `stable_text`.
    With `loop_guard`, answers that repeat themselves or meet their limit are dropped.
    """

    segments: SegmentPolicy
    commit: CommitRules
    max_buffered_samples: int
    max_tokens_per_second: float
    min_new_tokens: int
    context_characters: int
    held_words: int = 0
    min_tokens_per_second: float = 0.0
    loop_guard: bool = True

    @classmethod
    def of(cls, opened: OpenSession, settings: ProcessorSettings) -> SessionRules:
        """Return the rules of the session `opened`."""
        # Without partials, a whole segment is buffered before it is decoded.
        waiting = 0.0 if opened.partials else settings.max_segment_seconds
        live, recorded = settings.pause_after_seconds, settings.recorded_pause_after
        segments = SegmentPolicy.from_seconds(
            chunk_ms=opened.chunk_ms,
            pause_after=live if opened.partials else recorded,
            maximum=settings.max_segment_seconds,
            search=settings.cut_search_seconds,
        )
        settled = int(settings.settled_seconds * SAMPLE_RATE)
        return cls(
            segments=segments,
            commit=CommitRules(
                rollback_tokens=settings.rollback_tokens,
                open_tokens=min(settings.open_tokens, settings.rollback_tokens),
                settled_samples=min(settled, segments.grid) if opened.commit_early else settled,
                unfixed_decodes=settings.unfixed_chunks,
            ),
            max_buffered_samples=int((settings.max_buffered_seconds + waiting) * SAMPLE_RATE),
            max_tokens_per_second=settings.max_tokens_per_second,
            min_new_tokens=settings.min_new_tokens,
            context_characters=settings.context_characters,
            held_words=settings.held_words,
            min_tokens_per_second=settings.min_tokens_per_second,
            loop_guard=settings.loop_guard,
        )

    def context(self, given: str, previous_text: str) -> str:
        """Return the client's context and the end of `previous_text`, cut at a space."""
        tail = previous_text
        if len(tail) > self.context_characters:
            tail = tail[len(tail) - self.context_characters :].partition(" ")[2]
        return " ".join(part for part in (given, tail) if part)
