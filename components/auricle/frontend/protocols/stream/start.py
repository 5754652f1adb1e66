"""How a session begins on this frontend: new, or resumed from its client's token."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from auricle.annotation.translation.targets import check_targets, check_terms
from auricle.audio.constants import SAMPLE_RATE
from auricle.config.settings import FrontendSettings
from auricle.core.errors import BadRequest, ProtocolError, UnsupportedValue
from auricle.core.sanitize import quoted
from auricle.frontend.audio.chunks import AudioChunk, AudioEvent, FeatureChunk
from auricle.frontend.audio.endpointing import EndpointingOptions
from auricle.frontend.audio.ingest import FeatureIngest, Ingest
from auricle.frontend.audio.resume_state import left_out
from auricle.frontend.audio.turn_detection import WAITS
from auricle.frontend.frontend import Frontend
from auricle.frontend.link.processor_link import ProcessorLink
from auricle.frontend.protocols.stream.messages import LOG_MEL, End, Start, StreamEndpointing
from auricle.frontend.protocols.stream.refusals import ResumeMissing, ResumeOff
from auricle.frontend.protocols.stream.resume import (
    NOTHING_SENT,
    DeliveryTracker,
    ResumeState,
    ResumeTokens,
    SentState,
)
from auricle.frontend.transport.options import read
from auricle.frontend.transport.request_errors import json_fault
from auricle.frontend.transport.transcription_options import forced, several
from auricle.frontend.transport.websockets import ClientSocket
from auricle.protocol.sessions import OpenSession
from auricle.protocol.stream import Resume

log = logging.getLogger(__name__)

_LATER = msgspec.json.Decoder(Start | End)
_EXAMPLE = (
    'the first message must be a JSON start such as {"type": "start", "sample_rate": 16000}: '
)


def parse_start(text: str | None) -> Start:
    """Parse the first message. Raises ProtocolError, naming the wrong value and valid ones."""
    if text is None:
        raise ProtocolError("binary audio before the start message; send a JSON start first")
    try:
        start = read(Start, msgspec.json.decode(text, type=dict[str, Any]), ProtocolError)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtocolError(_EXAMPLE + json_fault(error)) from None
    except BadRequest as error:
        raise _wrong(error.param, _EXAMPLE * (error.param == "type") + str(error)) from None
    if start.languages and start.language is not None:
        raise _wrong("languages", "send either language or languages")
    if start.encoding == LOG_MEL:
        _check_features(start)
    _check_eagerness(start.endpointing)
    try:
        check_targets(start.translate, "translate")
        check_terms(start.terms, start.translate, "terms")
    except UnsupportedValue as error:
        raise _wrong(error.param, str(error)) from None
    return start


def _wrong(param: str | None, message: str) -> ProtocolError:
    """Return the error of a field of `start`."""
    error = ProtocolError(message)
    error.param = param
    return error


def _check_features(start: Start) -> None:
    if start.sample_rate != SAMPLE_RATE:
        raise _wrong(
            "sample_rate",
            f"{LOG_MEL} is of {SAMPLE_RATE} Hz audio, sample_rate is {quoted(start.sample_rate)}",
        )
    if start.endpointing != StreamEndpointing():
        raise _wrong(
            "endpointing", f"endpointing has no effect with {LOG_MEL}: the client marks speech"
        )


def _check_eagerness(wanted: StreamEndpointing) -> None:
    if wanted.eagerness is None:
        return
    if wanted.min_silence_ms is not None:
        raise _wrong(
            "endpointing.min_silence_ms",
            "endpointing.min_silence_ms has no effect with endpointing.eagerness: give one of them",
        )
    if wanted.enabled is False:
        raise _wrong(
            "endpointing.eagerness", "endpointing.eagerness needs endpointing, which is not enabled"
        )


def endpointing_options(start: Start, settings: FrontendSettings) -> EndpointingOptions | None:
    """Return the session's options, with the server's as defaults; None to decode all audio."""
    wanted = start.endpointing
    needed = None if wanted.eagerness is None else True
    return EndpointingOptions.chosen(
        settings,
        enabled=needed if wanted.enabled is None else wanted.enabled,
        threshold=wanted.threshold,
        min_silence_ms=wanted.min_silence_ms,
        pre_roll_ms=wanted.pre_roll_ms,
        turns=None if wanted.eagerness is None else WAITS[wanted.eagerness],
        recorded=not start.partials,
    )


def parse_end(text: str) -> None:
    """Check a text message after the start. Raises ProtocolError unless it is `end`."""
    try:
        message = _LATER.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtocolError(f"expected binary audio or a JSON end: {json_fault(error)}") from None
    if isinstance(message, Start):
        raise ProtocolError("start was sent twice; open another connection for another session")


@dataclass(frozen=True)
class Beginning:
    """A session's parts. `name` is the client's name for it.

    Speech before session sample `text_from` has its text. `offer` returns the token for a message
    to the client; it is None if sessions cannot be resumed.
    """

    name: str
    chunk_ms: int
    text_from: int
    ingest: Ingest | FeatureIngest
    delivery: DeliveryTracker
    link: ProcessorLink
    offer: Callable[[], Resume] | None

    def without_text(self, event: AudioEvent) -> AudioEvent | None:
        """Return the part of a piece that has no text yet, None if there is none; or the mark."""
        if not isinstance(event, AudioChunk | FeatureChunk):
            return event
        if event.end <= self.text_from:  # also an empty piece, whose boundary is known
            return None
        if isinstance(event, FeatureChunk) or event.start >= self.text_from:
            return event
        return AudioChunk(self.text_from, event.pcm[self.text_from - event.start :], event.boundary)


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
    language, among = forced(start.language, start.languages), several(start.languages)
    frontend.check_language(language, among)
    _check_annotations(frontend, start)
    binding = tokens.binding(socket.client.key, start)
    if start.resume is None:
        state = _fresh(frontend, socket.session, start)
        lead = frontend.lead()
    else:
        state = tokens.open(start.resume, binding, start.sample_rate)
        log.info("session %s resumes as %s", state.session, socket.session)
        frontend.metrics.resumed()
        sent = state.sent
        again = (sent.received - sent.listening.received) / SAMPLE_RATE
        lead = frontend.lead(again + tokens.late(state))  # repeated or late audio does not count
    opened = OpenSession(
        session=socket.session,  # a name that no processor can know from the connection before
        tenant=socket.client.tenant,
        language=language,
        languages=among,
        context=start.context,
        chunk_ms=state.chunk_ms,
        partials=start.partials,
        trace=socket.trace,
        words=start.aligned_words,
        grid_words=start.words and not start.aligned_words,
        diarize=start.diarize,
        max_speakers=start.max_speakers,
        translate=start.translate,
        terms=start.terms,
        admission=socket.session,
    )
    delivery = DeliveryTracker(state.sent, start.translate)

    def offer() -> Resume:
        sent = delivery.state()
        return tokens.issue(
            *(binding, start.sample_rate, state.session, state.chunk_ms, state.endpointing, sent)
        )

    return Beginning(
        state.session,
        state.chunk_ms,
        state.sent.point.segment_start,
        _ingest(frontend, socket.fairness_key, start, state.endpointing, state.sent),
        delivery,
        frontend.link(opened, state.sent.point, session=state.session, lead=lead),
        offer if tokens.seconds else None,
    )


def _check_annotations(frontend: Frontend, start: Start) -> None:
    """Raise UnsupportedValue if an option needs a model that this deployment does not have, and
    WorkerUnavailable if a new session needs a pool without a worker."""
    resumes = start.resume is not None
    frontend.check_words(start.aligned_words, resumes=resumes)
    frontend.check_speakers(start.diarize, resumes=resumes)
    if start.max_speakers is not None and not start.diarize:
        raise UnsupportedValue("max_speakers needs diarize: true", "max_speakers")
    frontend.check_translator(start.translate, resumes=resumes)
    frontend.check_turns(start.endpointing.eagerness is not None, "endpointing.eagerness")


def _fresh(frontend: Frontend, session: str, start: Start) -> ResumeState:
    """Return the state of the session, which has just begun."""
    options = None
    if start.encoding != LOG_MEL:
        options = endpointing_options(start, frontend.settings)
    chunk_ms = frontend.chunk_ms(start.chunk_ms)
    return ResumeState(0.0, session, chunk_ms, options, NOTHING_SENT)


def _ingest(
    frontend: Frontend,
    client: str,
    start: Start,
    options: EndpointingOptions | None,
    sent: SentState,
) -> Ingest | FeatureIngest:
    point = sent.listening
    if start.encoding == LOG_MEL:
        longest = frontend.settings.max_segment_seconds
        return FeatureIngest(start.feature_dtype, longest, point)
    skip = left_out(point.sample, start.sample_rate)
    return Ingest(
        *(start.sample_rate, start.encoding, frontend.detector, options),
        *(point, skip, frontend.turn_probability(client), sent.stalls),
    )
