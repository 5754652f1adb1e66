"""Has the PD pool write English for a segment whose speech is in another language."""

from __future__ import annotations

from dataclasses import dataclass

from auricle.audio.constants import SAMPLE_RATE
from auricle.checkpoint.prompt import PromptFormat
from auricle.messages.sessions import OpenSession
from auricle.process.tracing import OFF, Tracer
from auricle.processor.actions import DecodeTask
from auricle.processor.loops import loop_start
from auricle.processor.open_segment import OpenSegment
from auricle.processor.pools import EncodePool, PdPool
from auricle.processor.recognizer import Recognizer
from auricle.processor.usage import UsageMeter
from auricle.settings import ProcessorSettings


@dataclass(frozen=True)
class English:
    """A translation; `whole` unless the answer met its limit or repeated itself."""

    text: str
    whole: bool


class SpeechTranslator:
    """Translates segments of all sessions of a processor, with one more decode of each.

    The encoder's output for a segment is usually there still. Runs on the event loop.
    """

    def __init__(
        self,
        prompt: PromptFormat,
        settings: ProcessorSettings,
        encode_pool: EncodePool,
        pd_pool: PdPool,
        tracer: Tracer = OFF,
    ) -> None:
        """Raises BadRequest if the checkpoint of `prompt` does not translate."""
        self._prompt = prompt.translating()
        self._settings = settings
        self._pools = encode_pool, pd_pool
        self._tracer = tracer

    async def english(
        self,
        opened: OpenSession,
        segment: OpenSegment,
        samples: int,
        language: str,
    ) -> English:
        """Translate the first `samples` samples of a segment in `language`, a name.

        It yields to live sessions, as text does not wait for it. Raises AuricleError.
        """
        limit = int(self._settings.max_tokens_per_second * samples / SAMPLE_RATE)
        task = DecodeTask(
            head=self._prompt.head(""),
            tail=self._prompt.tail(language),
            max_tokens=max(limit, self._settings.min_new_tokens),
            final=True,
            trace=opened.trace,
        )
        recognizer = Recognizer(
            # A decode of this name does not end the session's open segment.
            f"{opened.session}-english",
            opened.tenant,
            *self._pools,
            background=True,
            tracer=self._tracer,
        )
        try:
            reply = await recognizer.decode(segment.audio, samples, task, UsageMeter())
        finally:
            recognizer.close()
        repeats = loop_start(reply.tokens)
        _, text = self._prompt.answer(reply.tokens[:repeats], language)
        return English(text, repeats is None and reply.finish != "length")
