"""The responses of Riva's recognition. No I/O. Times are in seconds of the session's audio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from auricle.audio.constants import SAMPLE_RATE
from auricle.confidence import of_text
from auricle.frontend.doors.rpc.schema import message
from auricle.frontend.recordings.transcriber import Segment
from auricle.messages.sessions import Final, Partial
from auricle.messages.stream import Word

PACKAGE = "nvidia.riva.asr"
_CHANNEL = 1
# As Riva's own server has it; 1.0 is what clients take for the end of an utterance.
_COMMITTED, _PARTIAL, _FINAL = 0.9, 0.1, 1.0


@dataclass(frozen=True)
class Results:
    """Makes the responses of one call; `request` is the client's name for it, None without.

    With `word_offsets` final text has words with times.
    """

    request: str | None
    word_offsets: bool = False

    def partial(self, event: Partial) -> bytes | None:
        """Return the text of the open segment; None if there is none.

        What is committed is a result of its own, before the one that may change.
        """
        parts = ((event.committed, _COMMITTED), (event.partial, _PARTIAL))
        seconds = event.audio_ms / 1000
        results = [_live(text, stability, seconds) for text, stability in parts if text]
        return self._response("StreamingRecognizeResponse", results) if results else None

    def final(self, event: Final) -> bytes | None:
        """Return a segment's final text; None if there is none."""
        if not event.text:
            return None
        confidence = of_text(word.confidence for word in event.words)
        result = _live("", _FINAL, event.end_ms / 1000, is_final=True)
        result["alternatives"] = [self._alternative(event.text, event.words, confidence)]
        return self._response("StreamingRecognizeResponse", [result])

    def recording(self, segments: Sequence[Segment]) -> bytes:
        """Return the texts of a recording's segments."""
        results = [
            {
                "alternatives": [self._alternative(one.text, one.words.words, one.confidence)],
                "channel_tag": _CHANNEL,
                "audio_processed": one.end / SAMPLE_RATE,
            }
            for one in segments
        ]
        return self._response("RecognizeResponse", results)

    def _alternative(
        self, text: str, words: Sequence[Word], confidence: float | None
    ) -> dict[str, Any]:
        # What is not known stays at 0, as in any message of Protocol Buffers.
        timed = [_word(word) for word in words] if self.word_offsets else []
        return {"transcript": _ended(text), "confidence": confidence or 0.0, "words": timed}

    def _response(self, kind: str, results: list[dict[str, Any]]) -> bytes:
        response = message(f"{PACKAGE}.{kind}")(results=results)
        if self.request is not None:
            response.id.value = self.request
        data: bytes = response.SerializeToString()
        return data


def _word(word: Word) -> dict[str, Any]:
    return {
        "start_time": word.start_ms,
        "end_time": word.end_ms,
        "word": word.text.strip(),
        "confidence": word.confidence or 0.0,
    }


def _ended(text: str) -> str:
    """Return final text as Riva's clients expect it: they join results without a space."""
    return f"{text} "


def _live(text: str, stability: float, seconds: float, *, is_final: bool = False) -> dict[str, Any]:
    return {
        "alternatives": [{"transcript": text}],
        "is_final": is_final,
        "stability": stability,
        "channel_tag": _CHANNEL,
        "audio_processed": seconds,
    }
