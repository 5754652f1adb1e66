"""The input of aligners for a text, and the word times of their output."""

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
    """Token ids; the text begins after `lead` of them."""

    @property
    def ids(self) -> tuple[int, ...]: ...

    @property
    def lead(self) -> int: ...

    def times_ms(self, marks: Sequence[int]) -> list[int]:
        """Return begin and end of each word in milliseconds, given the aligner's marks."""
        ...


class ScriptMaker(Protocol):
    def script(self, request: AlignRequest) -> Script:
        """Return the script of a request. Raises BadRequest if it is incomplete."""
        ...

    def tokens(self, embeddings: int, script: Script) -> int:
        """Return the length of a prompt with that many embeddings of audio."""
        ...


@dataclass(frozen=True)
class ForcedScript:
    """Each word with two timestamps; marks are their classes, `step_ms` apart."""

    ids: tuple[int, ...]
    step_ms: float
    lead: int = 0

    def times_ms(self, marks: Sequence[int]) -> list[int]:
        return [round(mark * self.step_ms) for mark in marks]


@dataclass(frozen=True)
class ForcedPrompt:
    """The prompts of a forced aligner, with audio and text in one sequence."""

    of: AlignerPrompt

    def script(self, request: AlignRequest) -> ForcedScript:
        return ForcedScript(self.of.after_audio(request.words), self.of.step_ms)

    def tokens(self, embeddings: int, script: Script) -> int:
        return 1 + embeddings + len(script.ids)


@dataclass(frozen=True)
class SpokenScript:
    """The text as the decoder would have generated it after its prompt.

    Marks are the positions of each token's begin and of the text's end. `lengths` are the tokens'
    lengths in bytes; the text begins after `space` bytes.
    """

    ids: tuple[int, ...]
    lead: int
    lengths: tuple[int, ...]
    texts: tuple[str, ...]
    space: int

    def times_ms(self, marks: Sequence[int]) -> list[int]:
        times = [mark * POSITION_MS for mark in marks]
        return [round(time) for time in word_times(self.lengths, times, self.texts, self.space)]


@dataclass(frozen=True)
class SpokenPrompt:
    """The prompts of a decoder with cross-attention, without audio."""

    of: PromptFormat

    def script(self, request: AlignRequest) -> SpokenScript:
        if len(request.texts) != len(request.words):
            raise BadRequest(f"{len(request.texts)} texts for {len(request.words)} words")
        language = self.of.check_language(request.language)
        if language is None:
            raise BadRequest("this aligner needs the language of the text")
        before = "" if language in UNSPACED else " "
        lead = self.of.tail(language)
        tokens, lengths = zip(*self.of.token_lengths(before + "".join(request.texts)), strict=True)
        return SpokenScript((*lead, *tokens), len(lead), lengths, request.texts, len(before))

    def tokens(self, embeddings: int, script: Script) -> int:
        return len(script.ids)


def prompt_for(checkpoint: ModelCheckpoint) -> ScriptMaker:
    """Return the prompts of a checkpoint. Raises CheckpointError if it is not an aligner."""
    if checkpoint.architecture.audio == "cross_attention":
        return SpokenPrompt(PromptFormat(checkpoint))
    return ForcedPrompt(AlignerPrompt(checkpoint))
