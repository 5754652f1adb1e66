"""A transcript bus that keeps the published messages, for tests of telephone calls."""

from __future__ import annotations

from auricle.frontend.exporters.transcripts import (
    TranscriptListener,
    TranscriptMessage,
    TranscriptSource,
)
from auricle.frontend.link.processor_link import LinkObserver
from auricle.protocol.diagnosis import BusState


class KeptBus:
    """The transcript bus of a frontend in this process."""

    def __init__(self) -> None:
        self.messages: list[TranscriptMessage] = []

    def listener(self, spoken: TranscriptSource) -> LinkObserver:
        return TranscriptListener(spoken, self.messages.append)

    def state(self) -> BusState:
        return BusState(True, 0)

    @property
    def finals(self) -> list[tuple[str, str, str]]:
        """(session, part, text) of each final text."""
        return [(m.session, m.part, m.text) for m in self.messages if m.type == "final"]
