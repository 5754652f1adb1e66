"""How a session begins on this frontend: anew, or after what its client's token says."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from auricle.audio.constants import SAMPLE_RATE
from auricle.frontend.doors.hints import forced, several
from auricle.frontend.doors.sockets import ClientSocket
from auricle.frontend.frontend import Frontend
from auricle.frontend.line.link import ProcessorLink
from auricle.frontend.listening.endpointing import EndpointingOptions
from auricle.frontend.listening.feature_ingest import FeatureIngest
from auricle.frontend.listening.ingest import Ingest
from auricle.frontend.listening.pieces import FeaturePiece, Piece
from auricle.frontend.listening.point import left_out
from auricle.frontend.stream.ledger import NOTHING, Ledger, Told
from auricle.frontend.stream.parsing import endpointing_options
from auricle.frontend.stream.protocol import LOG_MEL, Start
from auricle.frontend.stream.refusals import ResumeMissing, ResumeOff
from auricle.frontend.stream.resume_token import ResumeState, ResumeTokens
from auricle.messages.sessions import OpenSession
from auricle.messages.stream import Resume

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Beginning:
    """A session's parts. `name` is the one that the client knows.

    Speech before session sample `text_from` has its text. `offer` returns what goes with a message
    to the client; it is None if sessions cannot be resumed.
    """

    name: str
    chunk_ms: int
    text_from: int
    ingest: Ingest | FeatureIngest
    ledger: Ledger
    link: ProcessorLink
    offer: Callable[[], Resume] | None

    def without_text(self, piece: Piece | FeaturePiece) -> Piece | FeaturePiece | None:
        """Return the part of a piece that has no text yet, None if there is none."""
        if piece.end <= self.text_from:  # also an empty piece, whose boundary is known
            return None
        if isinstance(piece, FeaturePiece) or piece.start >= self.text_from:
            return piece
        return Piece(self.text_from, piece.pcm[self.text_from - piece.start :], piece.boundary)


def begin(
    frontend: Frontend, tokens: ResumeTokens, socket: ClientSocket, start: Start
) -> Beginning:
    """Begin the session that `start` asks for.

    Raises an error of `refusals.py` if it cannot be resumed.
    """
    if start.resume is not None and not tokens.seconds:
        raise ResumeOff
    if start.resume is None and socket.resumes:
        # It was let in as one that had been admitted before.
        raise ResumeMissing
    frontend.check_words(start.words)
    frontend.check_speakers(start.diarize)
    frontend.check_translator(start.translate)
    frontend.check_turns(start.endpointing.eagerness is not None, "endpointing.eagerness")
    binding = tokens.binding(socket.client.key, start)
    if start.resume is None:
        state = _fresh(frontend, socket.session, start)
        lead = frontend.lead()
    else:
        state = tokens.open(start.resume, binding, start.sample_rate)
        log.info("session %s goes on as %s", state.session, socket.session)
        frontend.metrics.resumed()
        told = state.told
        # It speaks as live as before: what it sends again, and what it could not send, is no lead.
        again = (told.heard - told.listening.heard) / SAMPLE_RATE
        lead = frontend.lead(again + tokens.late(state))
    opened = OpenSession(
        session=socket.session,  # a name that no processor can know from the connection before
        tenant=socket.client.tenant,
        language=forced(start.language, start.languages),
        languages=several(start.languages),
        context=start.context,
        chunk_ms=state.chunk_ms,
        partials=start.partials,
        trace=socket.trace,
        words=start.words,
        diarize=start.diarize,
        translate=start.translate,
        terms=start.terms,
        admission=socket.session,
    )
    ledger = Ledger(state.told, start.translate)

    def offer() -> Resume:
        told = ledger.state()
        return tokens.issue(
            *(binding, start.sample_rate, state.session, state.chunk_ms, state.endpointing, told)
        )

    return Beginning(
        state.session,
        state.chunk_ms,
        state.told.point.segment_start,
        _ingest(frontend, start, state.endpointing, state.told),
        ledger,
        frontend.link(opened, state.told.point, session=state.session, lead=lead),
        offer if tokens.seconds else None,
    )


def _fresh(frontend: Frontend, session: str, start: Start) -> ResumeState:
    """Return the state of the session, which has just begun."""
    options = None
    if start.encoding != LOG_MEL:
        options = endpointing_options(start, frontend.settings)
    chunk_ms = frontend.chunk_ms(start.chunk_ms)
    return ResumeState(0.0, session, chunk_ms, options, NOTHING)


def _ingest(
    frontend: Frontend, start: Start, options: EndpointingOptions | None, told: Told
) -> Ingest | FeatureIngest:
    point = told.listening
    if start.encoding == LOG_MEL:
        longest = frontend.settings.max_segment_seconds
        return FeatureIngest(start.feature_dtype, longest, point)
    skip = left_out(point.sample, start.sample_rate)
    return Ingest(
        *(start.sample_rate, start.encoding, frontend.detector, options),
        *(point, skip, frontend.judge),
    )
