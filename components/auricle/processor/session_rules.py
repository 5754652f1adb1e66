"""A session's rules, derived from its settings, and the interface of its prompt format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from auricle.audio.constants import SAMPLE_RATE
from auricle.messages.sessions import OpenSession
from auricle.processor.segments import SegmentPolicy
from auricle.processor.stability import CommitRules
from auricle.settings import ProcessorSettings


class Prompt(Protocol):
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
    allowed. The last `context_characters` of a final text are context of the next segment.
    With `loop_guard`, answers that repeat themselves or meet their limit are dropped.
    """

    segments: SegmentPolicy
    commit: CommitRules
    max_buffered_samples: int
    max_tokens_per_second: float
    min_new_tokens: int
    context_characters: int
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
                settled_samples=min(settled, segments.grid) if opened.hasty else settled,
                unfixed_decodes=settings.unfixed_chunks,
            ),
            max_buffered_samples=int((settings.max_buffered_seconds + waiting) * SAMPLE_RATE),
            max_tokens_per_second=settings.max_tokens_per_second,
            min_new_tokens=settings.min_new_tokens,
            context_characters=settings.context_characters,
            loop_guard=settings.loop_guard,
        )

    def context(self, given: str, previous_text: str) -> str:
        """Return the client's context and the end of `previous_text`, cut at a space."""
        tail = previous_text
        if len(tail) > self.context_characters:
            tail = tail[len(tail) - self.context_characters :].partition(" ")[2]
        return " ".join(part for part in (given, tail) if part)
