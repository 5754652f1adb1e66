"""The input of aligners for a text, and the word times of their output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from auricle.annotation.alignment import word_times
from auricle.checkpoints.alignment import AlignerPrompt
from auricle.checkpoints.files import ModelCheckpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.checkpoints.whole_chunks import POSITION_MS
from auricle.core.errors import BadRequest
from auricle.protocol.annotation import AlignRequest
from auricle.transcript.words import UNSPACED


@dataclass(frozen=True)
class Script:
    """Token ids; the text begins after `lead` of them.

    `times_ms` returns begin and end of each word in milliseconds, given the aligner's marks.
    """

    ids: tuple[int, ...]
    lead: int
    times_ms: Callable[[Sequence[int]], list[int]]


@dataclass(frozen=True)
class ForcedPrompt:
    """The prompts of a forced aligner, with audio and text in one sequence."""

    of: AlignerPrompt

    def script(self, request: AlignRequest) -> Script:
        """Return each word with two timestamps; marks are their classes."""
        step = self.of.step_ms
        ids = self.of.after_audio(request.words)
        return Script(ids, 0, lambda marks: [round(mark * step) for mark in marks])

    def tokens(self, embeddings: int, script: Script) -> int:
        """Return the length of a prompt with that many embeddings of audio."""
        return 1 + embeddings + len(script.ids)


@dataclass(frozen=True)
class SpokenPrompt:
    """The prompts of a decoder with cross-attention, without audio."""

    of: PromptFormat

    def script(self, request: AlignRequest) -> Script:
        """Return the text as the decoder would have generated it after its prompt.

        Marks are the positions of each token's begin and of the text's end. Raises BadRequest if
        the request is incomplete.
        """
        texts = request.texts
        if len(texts) != len(request.words):
            raise BadRequest(f"{len(texts)} texts for {len(request.words)} words")
        language = self.of.check_language(request.language)
        if language is None:
            raise BadRequest("this aligner needs the language of the text")
        before = "" if language in UNSPACED else " "
        lead = self.of.tail(language)
        tokens, lengths = zip(*self.of.token_lengths(before + "".join(texts)), strict=True)

        def times_ms(marks: Sequence[int]) -> list[int]:
            times = [mark * POSITION_MS for mark in marks]
            return [round(time) for time in word_times(lengths, times, texts, len(before))]

        return Script((*lead, *tokens), len(lead), times_ms)

    def tokens(self, embeddings: int, script: Script) -> int:
        """Return the length of a prompt, which has no audio."""
        return len(script.ids)


ScriptMaker = ForcedPrompt | SpokenPrompt


def prompt_for(checkpoint: ModelCheckpoint) -> ScriptMaker:
    """Return the prompts of a checkpoint. Raises CheckpointError if it is not an aligner."""
    if checkpoint.architecture.audio == "cross_attention":
        return SpokenPrompt(PromptFormat(checkpoint))
    return ForcedPrompt(AlignerPrompt(checkpoint))
