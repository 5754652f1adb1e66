"""Final text in the log, where `log_transcripts` asks for it; never otherwise."""

from __future__ import annotations

import logging

from auricle.frontend.endpointing import FeaturePiece, Piece
from auricle.messages import Final, SessionEvent

log = logging.getLogger(__name__)


class TranscriptLog:
    """An observer of a session's link."""

    def heard(self, piece: Piece | FeaturePiece) -> None:
        """Audio is of no interest."""

    def event(self, event: SessionEvent) -> None:
        """Finals are logged."""
        if isinstance(event, Final):
            log.info("final text", extra={"text": event.text, "segment": event.segment})
