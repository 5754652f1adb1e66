"""Texts as aligners read them, and what their answers mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from auricle.annotation.alignment import word_times
from auricle.checkpoints.alignment import AlignerPrompt
from auricle.checkpoints.files import ModelCheckpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.checkpoints.whole_chunks import POSITION_MS
from auricle.core.errors import BadRequest
from auricle.protocol.annotation import AlignRequest
from auricle.transcript.words import UNSPACED


class Script(Protocol):
    """Token ids of a text; the first `lead` are no text."""

    @property
    def ids(self) -> tuple[int, ...]: ...

    @property
    def lead(self) -> int: ...

    def times_ms(self, marks: Sequence[int]) -> list[int]:
        """Return begin and end of each word, in milliseconds, from what the aligner gave."""
        ...


class ScriptMaker(Protocol):
    """Makes the scripts of one checkpoint."""

    def script(self, request: AlignRequest) -> Script:
        """Return a request's. Raises BadRequest if it lacks something."""
        ...

    def tokens(self, embeddings: int, script: Script) -> int:
        """Return the length of a prompt with so many embeddings of audio."""
        ...


@dataclass(frozen=True)
class ForcedScript:
    """Each word with two timestamps, of which an answer has the classes, `step_ms` apart."""

    ids: tuple[int, ...]
    step_ms: float
    lead: int = 0

    def times_ms(self, marks: Sequence[int]) -> list[int]:
        """See `Script`."""
        return [round(mark * self.step_ms) for mark in marks]


@dataclass(frozen=True)
class ForcedPrompt:
    """The prompts of a forced aligner, which has audio and text in one sequence."""

    of: AlignerPrompt

    def script(self, request: AlignRequest) -> ForcedScript:
        """See `ScriptMaker`."""
        return ForcedScript(self.of.after_audio(request.words), self.of.step_ms)

    def tokens(self, embeddings: int, script: Script) -> int:
        """See `ScriptMaker`."""
        return 1 + embeddings + len(script.ids)


@dataclass(frozen=True)
class SpokenScript:
    """The text itself, as the decoder would have written it behind its prompt.

    An answer has the position at which each token begins, and the one at which the text ends.
    `lengths` are the tokens' in bytes, of which the first `space` precede the text.
    """

    ids: tuple[int, ...]
    lead: int
    lengths: tuple[int, ...]
    texts: tuple[str, ...]
    space: int

    def times_ms(self, marks: Sequence[int]) -> list[int]:
        """See `Script`."""
        times = [mark * POSITION_MS for mark in marks]
        return [round(time) for time in word_times(self.lengths, times, self.texts, self.space)]


@dataclass(frozen=True)
class SpokenPrompt:
    """The prompts of a decoder that attends to audio, which is no part of them."""

    of: PromptFormat

    def script(self, request: AlignRequest) -> SpokenScript:
        """See `ScriptMaker`."""
        if len(request.texts) != len(request.words):
            raise BadRequest(f"{len(request.texts)} texts for {len(request.words)} words")
        language = self.of.check_language(request.language)
        if language is None:
            raise BadRequest("this aligner needs the language of the text")
        before = "" if language in UNSPACED else " "
        lead = self.of.tail(language)
        tokens, lengths = zip(*self.of.spelt(before + "".join(request.texts)), strict=True)
        return SpokenScript((*lead, *tokens), len(lead), lengths, request.texts, len(before))

    def tokens(self, embeddings: int, script: Script) -> int:
        """See `ScriptMaker`."""
        return len(script.ids)


def prompt_for(checkpoint: ModelCheckpoint) -> ScriptMaker:
    """Return the prompts of an aligner's checkpoint. Raises CheckpointError if it is none."""
    if checkpoint.architecture.audio == "cross_attention":
        return SpokenPrompt(PromptFormat(checkpoint))
    return ForcedPrompt(AlignerPrompt(checkpoint))
