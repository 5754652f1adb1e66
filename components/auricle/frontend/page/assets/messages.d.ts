// Messages of /v1/audio/stream. Written by `make interfaces`; not to be edited.

/**
 * Only a new `resume`; sent after 10 s of audio without another message.
 */
export interface CheckpointEvent {
  type: "checkpoint";
  resume?: Resume;
}

/**
 * The last message of a session that succeeded: this connection's finals, joined by spaces.
 */
export interface DoneEvent {
  type: "done";
  text: string;
  usage: Usage;
}

/**
 * The client's last message: the audio has ended.
 */
export interface EndMessage {
  type: "end";
}

/**
 * The last message of a session that failed; `code` is an `AuricleError.code`.
 *
 * `retry_after_seconds` is given if a retry may succeed after that time, and `param` if a field
 * of `start` is wrong: its name.
 */
export interface ErrorEvent {
  type: "error";
  code: string;
  message: string;
  retry_after_seconds?: number;
  param?: string;
}

/**
 * The final text of one segment, which starts with the text committed before.
 */
export interface FinalEvent {
  type: "final";
  segment: number;
  text: string;
  start_ms: number;
  end_ms: number;
  language: string;
  resume?: Resume;
}

/**
 * The server is shutting down and ends the session before its audio has ended.
 *
 * The client can resume it, or continue in a new session, on any server, with `context` and the
 * audio from `resume_ms`. The text of all audio before that is final.
 */
export interface GoingAwayEvent {
  type: "going_away";
  resume_ms: number;
  context: string;
  resume?: Resume;
}

/**
 * The text of the open segment. `committed` is append-only; `partial` may change.
 */
export interface PartialEvent {
  type: "partial";
  segment: number;
  committed: string;
  partial: string;
  audio_ms: number;
  language: string;
  resume?: Resume;
}

/**
 * The session is open; audio may be sent.
 */
export interface ReadyEvent {
  type: "ready";
  session: string;
  model: string;
  chunk_ms: number;
  resume?: Resume;
}

/**
 * Resumes a session: the server sends it with its messages, and the client returns the last
 * one unchanged.
 *
 * `token` is opaque. The client keeps audio from `from_sample` on (counted at the client's sample
 * rate from the session's start), and sends it again after `start`.
 */
export interface Resume {
  token: string;
  from_sample: number;
}

/**
 * A speaker, counted from 1, with their `text`, which may be empty. The joined `text` of all
 * parts of a segment is the segment's text.
 */
export interface SpeakerPart {
  speaker: number;
  start_ms: number;
  end_ms: number;
  text: string;
}

/**
 * The speakers of a segment whose `final` came before. They never change.
 *
 * `source` names the word times that divide the text: the aligner's or the decodes'. `missing` is
 * the reason for missing parts.
 */
export interface SpeakersEvent {
  type: "speakers";
  segment: number;
  parts: readonly SpeakerPart[];
  source?: "aligned" | "commit_grid";
  missing?: string;
  resume?: Resume;
}

/**
 * Speech began at `at_ms`, which does not include the pre-roll.
 */
export interface SpeechStartedEvent {
  type: "speech_started";
  at_ms: number;
  resume?: Resume;
}

/**
 * Speech ended at `at_ms`; sent once the silence has lasted `min_silence_ms`, or the turn is
 * over.
 */
export interface SpeechStoppedEvent {
  type: "speech_stopped";
  at_ms: number;
  resume?: Resume;
}

/**
 * The client's first message.
 *
 * `sample_rate` is in Hz. `feature_dtype` applies to the encoding `log_mel` only. With
 * `chunk_ms` null the server's default applies, with `language` null the language is
 * detected; of `languages`, at most four, each segment is in one. With `partials` false each
 * segment is decoded once, when it is complete; that costs less, and the text does not depend on
 * load. With `words` each `final` with text is followed, sooner or later, by its `words`, with
 * the times of an aligner, or with `word_times` `grid` with the times of decodes. With `diarize`
 * it is followed by its `speakers`, of whom there are at most `max_speakers`. Text is translated
 * into the languages `translate`, ISO 639-1 codes, at most four; `terms` are words and their
 * translations, by language. `resume` continues an earlier session, whose `start` had the same
 * other fields.
 */
export interface StartMessage {
  type: "start";
  sample_rate: number;
  encoding?: "pcm_s16le" | "pcm_mulaw" | "pcm_alaw" | "log_mel";
  feature_dtype?: "float32" | "float16";
  language?: string | null;
  languages?: readonly string[];
  context?: string;
  chunk_ms?: number | null;
  partials?: boolean;
  endpointing?: StreamEndpointing;
  words?: boolean;
  word_times?: "aligned" | "grid";
  diarize?: boolean;
  max_speakers?: number | null;
  translate?: readonly string[];
  terms?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  resume?: Resume | null;
}

/**
 * The session's endpointing; null stands for the server's default.
 *
 * `threshold` is a speech probability from 0 to 1. With `enabled` false all audio is decoded. With
 * `eagerness` speech ends where a turn model takes the speaker's turn to be over, instead of after
 * `min_silence_ms`.
 */
export interface StreamEndpointing {
  enabled?: boolean | null;
  threshold?: number | null;
  min_silence_ms?: number | null;
  pre_roll_ms?: number | null;
  eagerness?: "low" | "medium" | "auto" | "high" | null;
}

/**
 * A word and its time. `word` has letters and digits only; the joined `text` of all words of a
 * segment is the segment's text. `confidence` is the model's, from 0 to 1, if known.
 */
export interface TimedWord {
  word: string;
  text: string;
  start_ms: number;
  end_ms: number;
  confidence?: number;
}

/**
 * The translation of a segment into `language`. `committed` is append-only; `partial` follows
 * it and may change.
 *
 * `final` marks the last event; each segment with text and each language has one. `missing` is the
 * reason if the translation is incomplete; committed text stays.
 */
export interface TranslationEvent {
  type: "translation";
  segment: number;
  language: string;
  committed: string;
  partial: string;
  final: boolean;
  missing?: string;
  resume?: Resume;
}

/**
 * Speech paused at `at_ms`: with this probability (0 to 1) the turn is over. Sent with
 * `eagerness` only, and followed by `turn_resumed` or `speech_stopped`.
 */
export interface TurnPausedEvent {
  type: "turn_paused";
  at_ms: number;
  probability: number;
  resume?: Resume;
}

/**
 * The speaker continues at `at_ms`: the paused turn is not over.
 */
export interface TurnResumedEvent {
  type: "turn_resumed";
  at_ms: number;
  resume?: Resume;
}

/**
 * The cost of a session so far; `*_tokens` are summed over all decodes.
 *
 * `decode_steps` counts decode steps, which run in sequence. `decodes_skipped` counts grid
 * points without a decode, because of load or because the segment ended.
 */
export interface Usage {
  audio_ms: number;
  decodes: number;
  decodes_skipped: number;
  windows_encoded: number;
  blocks_convolved: number;
  prompt_tokens: number;
  cached_tokens: number;
  output_tokens: number;
  decode_steps: number;
  embedding_bytes_read: number;
}

/**
 * The words of a segment whose `final` came before.
 *
 * `source` is `aligned`, or `commit_grid` if the session requested that or the aligner lacks the
 * language: times then have the granularity of decodes. `missing` is the reason for missing
 * aligned times; without a `source`, words are missing. `confidence` is the mean of the words',
 * if all are known.
 */
export interface WordsEvent {
  type: "words";
  segment: number;
  words: readonly TimedWord[];
  source?: "aligned" | "commit_grid";
  missing?: string;
  confidence?: number;
  resume?: Resume;
}

export type ClientMessage = StartMessage | EndMessage;

export type StreamEvent = ReadyEvent | SpeechStartedEvent | SpeechStoppedEvent | TurnPausedEvent | TurnResumedEvent | CheckpointEvent | PartialEvent | FinalEvent | WordsEvent | SpeakersEvent | TranslationEvent | GoingAwayEvent | DoneEvent | ErrorEvent;
