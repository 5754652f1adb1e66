"""The shared parts of all sessions of a frontend process."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from auricle.annotation.speakers.model import NO_SPEAKER_MODEL
from auricle.annotation.translation.targets import Directions
from auricle.checkpoints.language_support import LanguageSupport
from auricle.checkpoints.languages import (
    described_languages,
    language_name,
    supported_language,
)
from auricle.checkpoints.text_model import pool_targets
from auricle.config.settings import FrontendSettings
from auricle.core.errors import UnknownModel, UnsupportedValue
from auricle.core.limits import MODEL, check
from auricle.core.sanitize import quoted
from auricle.frontend.audio.chunks import AudioEvent
from auricle.frontend.audio.ingest import FeatureIngest, Ingest, TurnProbability
from auricle.frontend.audio.turn_detection import TurnDetector
from auricle.frontend.audio.voice_activity import VoiceDetector
from auricle.frontend.capabilities import ServerCapabilities, server_capabilities, spoken_by
from auricle.frontend.exporters.timing import SessionTimer, TextLags
from auricle.frontend.exporters.transcripts import TranscriptBus, TranscriptLog, TranscriptSource
from auricle.frontend.link.processor_link import (
    Lead,
    LinkObserver,
    ProcessorEndpoints,
    ProcessorLink,
)
from auricle.frontend.link.words import WordTimes
from auricle.frontend.metrics import FrontendMetrics
from auricle.frontend.transport.access.limits import KeyLimits
from auricle.frontend.transport.admission import SessionAdmission
from auricle.frontend.transport.live_sessions import LiveSessions
from auricle.frontend.transport.peers import Peers
from auricle.frontend.transport.stored_bytes import StoredBytes
from auricle.load.pools import SPEAKERS, TRANSLATIONS, WORDS
from auricle.process.tracing import OFF, Tracer
from auricle.protocol.sessions import OpenSession, ResumePoint
from auricle.protocol.views import STEPS_KEPT_SECONDS
from auricle.transcript.words import NO_ALIGNER

NO_TURN_MODEL = (
    "this server has no turn model (Frontend.turn_model), which semantic_vad needs; "
    "end turns by silence"
)

# Models that the SDKs of hosted services request by default. Without `gpt-4o-transcribe-diarize`:
# clients that request it expect speakers.
DEFAULT_NAMES = frozenset(
    (
        # OpenAI
        *("whisper-1", "gpt-transcribe", "gpt-live-transcribe", "gpt-realtime-whisper"),
        *("gpt-4o-transcribe", "gpt-4o-mini-transcribe", "gpt-4o-mini-transcribe-2025-12-15"),
        # Deepgram
        *("nova-3", "nova-3-general", "nova-2", "nova-2-general"),
        *("flux-general-en", "flux-general-multi"),
        # AssemblyAI
        *("universal-streaming-english", "universal-streaming-multilingual"),
        *("universal-3-6-pro", "universal-3-6", "universal-3-5-pro"),
        *("u3-rt-pro", "u3-rt-pro-beta-1", "u3-pro", "whisper-rt"),
    )
)


@dataclass(frozen=True)
class Frontend:
    """The shared parts of one frontend process; all are used on its event loop.

    `models` are the served model's name and its aliases.
    """

    settings: FrontendSettings
    models: tuple[str, ...]
    endpoints: ProcessorEndpoints
    admission: SessionAdmission
    detector: VoiceDetector
    bus: TranscriptBus
    metrics: FrontendMetrics
    tracer: Tracer = OFF
    turns: TurnDetector | None = None
    peers: Peers = field(default_factory=Peers)

    @property
    def model(self) -> str:
        """The served model's own name."""
        return self.models[0]

    @cached_property
    def abilities(self) -> ServerCapabilities:
        """The optional annotations, as clients see them."""
        return server_capabilities(self.settings, self.spoken, self.directions)

    @cached_property
    def spoken(self) -> LanguageSupport:
        return spoken_by(self.settings.model)

    @cached_property
    def directions(self) -> Directions:
        """Who translates into which language."""
        settings = self.settings
        pool = pool_targets(settings.translate_model, settings.translate_targets)
        return Directions(pool, self.spoken.translates)

    @cached_property
    def key_limits(self) -> KeyLimits:
        """Limits of one key's clients, over all protocols."""
        settings = self.settings
        return KeyLimits(settings.max_connections_per_key, settings.max_handshakes_per_key)

    @cached_property
    def stored(self) -> StoredBytes:
        """The disk space of uploads, over all protocols."""
        stored = StoredBytes(self.settings.max_stored_upload_bytes)
        self.metrics.stored.set_function(lambda: stored.total)
        return stored

    @cached_property
    def text_lags(self) -> TextLags:
        """How late the texts of sessions are that an operator looks at."""
        return TextLags(STEPS_KEPT_SECONDS)

    @cached_property
    def live_sessions(self) -> LiveSessions:
        """Admits and logs the sessions and recordings of all protocols."""
        return LiveSessions(self.admission, self.key_limits, self.metrics, self.tracer)

    def chunk_ms(self, wanted: int | None) -> int:
        """Return a session's chunk length in ms: `wanted`, or the server's."""
        return wanted or self.settings.default_chunk_ms

    def check_model(self, name: str | None) -> tuple[str, ...]:
        """Return a warning if another service has the model `name`, which this one replaces.

        Raises UnknownModel for other names that are not served here.
        """
        check("model", name, MODEL)
        if name is None or name in self.models:
            return ()
        if self.settings.model_names == "strict" or name not in DEFAULT_NAMES:
            raise UnknownModel(name, self.models)
        return (f"model {quoted(name)} is not served here; {self.model} has replaced it",)

    def check_language(
        self, language: str | None, among: Sequence[str] = (), param: str = "language"
    ) -> None:
        """Raise UnsupportedValue, naming `param`, for a language that the model lacks.

        Of several, `among`, which have the plural as their name, it must understand one. A
        processor checks it, when the first audio comes, if the model's files are not here.
        """
        wanted = among if language is None else (language,)
        names = [language_name(code) for code in self.spoken.languages]
        if not names or not wanted or any(supported_language(one, names) for one in wanted):
            return
        param, verb = (f"{param}s", "are") if language is None else (param, "is")
        raise UnsupportedValue(
            f"{param} {quoted(', '.join(wanted))} {verb} not supported; "
            f"supported: {described_languages(names)}",
            param,
        )

    def check_words(self, wanted: bool, param: str = "words", *, resumes: bool = False) -> None:
        """Raise UnsupportedValue, naming `param`, if words are requested without an aligner.

        This and the next two raise WorkerUnavailable if the pool has no worker. A session that
        `resumes` continues without the annotation.
        """
        if wanted and self.settings.align_model is None:
            raise UnsupportedValue(NO_ALIGNER, param)
        if wanted and not resumes:
            self.admission.pools.check(WORDS)

    def check_options(
        self, model: str | None, words: WordTimes | None, param: str = "word_times"
    ) -> tuple[str, ...]:
        """As `check_model`; raises UnsupportedValue, naming `param`, for `words`."""
        self.check_words(words == "aligned", param)
        return self.check_model(model)

    def check_speakers(
        self, wanted: bool, param: str = "diarize", *, resumes: bool = False
    ) -> None:
        """Raise UnsupportedValue, naming `param`, without a speaker model if one is wanted."""
        if wanted and self.settings.speaker_model is None:
            raise UnsupportedValue(NO_SPEAKER_MODEL, param)
        if wanted and not resumes:
            self.admission.pools.check(SPEAKERS)

    def check_offered_speakers(self, wanted: bool) -> None:
        """As `check_speakers`, for protocols that warn of a missing speaker model."""
        self.check_speakers(wanted and self.settings.speaker_model is not None)

    def check_translator(
        self, targets: Sequence[str], param: str = "translate", *, resumes: bool = False
    ) -> None:
        """Raise UnsupportedValue, naming `param`, if nothing translates into one of `targets`."""
        self.directions.check(targets, param)
        if self.directions.of_pool(targets) and not resumes:
            self.admission.pools.check(TRANSLATIONS)

    def check_turns(self, wanted: bool, param: str) -> None:
        """Raise UnsupportedValue, naming `param`, if turns are requested without a turn model."""
        if wanted and self.turns is None:
            raise UnsupportedValue(NO_TURN_MODEL, param)

    def turn_probability(self, client: str) -> TurnProbability | None:
        """Return what computes the probability that a turn is over, for a session of this client.

        None without a turn model.
        """
        return None if self.turns is None else partial(self.turns.probability, client)

    def lead(self, late_seconds: float = 0.0) -> Lead:
        """Return a client's lead over real time; it may be `late_seconds` further ahead."""
        return Lead(self.settings.ahead_seconds + late_seconds)

    async def listened(self, ingest: Ingest | FeatureIngest, trace: str) -> list[AudioEvent]:
        """Process the next slice of a client's audio; return its events."""
        began = time.monotonic()
        events = await ingest.process()
        self.tracer.record("voice_activity", trace, began, time.monotonic())
        return events

    def link(
        self,
        opened: OpenSession,
        start: ResumePoint | None = None,
        *,
        session: str | None = None,
        call: str | None = None,
        part: str = "",
        lead: Lead | None = None,
    ) -> ProcessorLink:
        """Return a new link to a processor for the session `opened`.

        `start` is where its audio begins, if not at sample 0. `session` and `part` name it on
        the transcript bus, if the client's session consists of several processor sessions, which
        then share its `lead`; or the client has named it `call`.
        """
        own = session or opened.session
        source = TranscriptSource(opened.tenant, call or own, part, own if call else "")
        observers: list[LinkObserver] = [self.bus.listener(source)]
        if not opened.background:
            on_text = partial(self.text_lags.record, opened.session)
            observers.append(SessionTimer(self.metrics, on_text=on_text))
        if self.settings.log_transcripts:
            observers.append(TranscriptLog())
        return ProcessorLink(
            self.endpoints,
            opened,
            start=start,
            observers=observers,
            tracer=self.tracer,
            deadline_seconds=self.settings.request_deadline_seconds,
            choose_seconds=self.settings.processor_deadline_seconds,
            lead=lead,
        )
