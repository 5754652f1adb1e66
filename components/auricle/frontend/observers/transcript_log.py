"""Logs final text. It is used only if the setting `log_transcripts` is on."""

from __future__ import annotations

import logging

from auricle.frontend.listening.pieces import FeaturePiece, Piece
from auricle.messages.sessions import Final, SessionEvent

log = logging.getLogger(__name__)


class TranscriptLog:
    """Logs the final texts of one session, as an observer of its link."""

    def heard(self, piece: Piece | FeaturePiece) -> None:
        """Audio is ignored."""

    def event(self, event: SessionEvent) -> None:
        """Log the text if the event is a Final."""
        if isinstance(event, Final):
            log.info("final text", extra={"text": event.text, "segment": event.segment})
