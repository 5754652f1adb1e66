// Documents of /v1/operations. Written by `make interfaces`; not to be edited.

/**
 * The last chunks of a session, oldest first, as its processor measured them; and `lags`, as
 * this frontend did, which has all sessions of its own clients and none of other frontends.
 */
export interface ChosenSession {
  session: string;
  chunks: readonly ChunkSteps[];
  lags: readonly TextLag[];
}

/**
 * The duration of one decode, step by step, in seconds.
 *
 * `wait` is the time from the arrival of its last audio until its processing began; `mel`,
 * `encode`, `read` (of the embeddings) and `decode` follow in sequence, each summed over attempts;
 * `rest` is the remainder of the `whole`: waiting for a worker, and before attempts. `decode`
 * includes the transport to and from the PD worker. The decode covered the session up to
 * `audio_seconds`; `final` if it ended the segment. `skipped`: it was abandoned or rejected,
 * because of load or of the segment's end.
 */
export interface ChunkSteps {
  segment: number;
  audio_seconds: number;
  final: boolean;
  skipped: boolean;
  wait: number;
  mel: number;
  encode: number;
  read: number;
  decode: number;
  rest: number;
  whole: number;
  prompt_tokens: number;
  cached_tokens: number;
  output_tokens: number;
  bytes_read: number;
  encode_worker: string;
  pd_worker: string;
}

/**
 * What `auricle doctor` would say without probes, as of `age_seconds` ago.
 */
export interface DeploymentHealth {
  age_seconds: number;
  wrong: number;
  findings: readonly Finding[];
}

/**
 * The findings of `auricle doctor`, with a probe of every worker; it took `seconds`.
 */
export interface Examination {
  at: number;
  seconds: number;
  probes: number;
  wrong: number;
  findings: readonly Finding[];
}

/**
 * Three sentences. If not `wrong` it is a notice: good to know, nothing to mend.
 */
export interface Finding {
  what: string;
  why: string;
  remedy: string;
  wrong?: boolean;
}

/**
 * This frontend: live sessions, of how many at most, and connections.
 */
export interface FrontendState {
  sessions: number;
  sessions_limit: number;
  connections: number;
  draining: boolean;
}

/**
 * Tokens of the KV cache and of one request at most, and requests at a time.
 *
 * `attended` is the room, in tokens, of each request's cross-attention positions.
 */
export interface KvRoom {
  tokens: number;
  max_model_len: number;
  max_requests: number;
  attended?: number;
}

/**
 * The load of all processors at `at` (Unix seconds): open sessions, those with speech, clients
 * that were refused lately, and the 95th percentile of recent chunks, from audio to text.
 */
export interface LoadMoment {
  at: number;
  sessions: number;
  speaking: number;
  waiting: number;
  chunk_seconds: number;
}

/**
 * The deployment at `at` (Unix seconds), as this frontend sees it; without any transcript.
 *
 * A new one is made every `every_seconds` while a page is open. Without `keys` no API keys are
 * set, and every client of this frontend may look. `sessions_left_out` are those beyond 200 of a
 * processor. `chosen` are the steps of the session that was asked for, null if it is not open;
 * they are kept from then on. `pools` has every pool that has a worker, and those that sessions
 * need.
 */
export interface Operations {
  at: number;
  every_seconds: number;
  namespace: string;
  keys: boolean;
  health: DeploymentHealth;
  frontend: FrontendState;
  processors: readonly ProcessorState[];
  pools: readonly PoolState[];
  planners: readonly PlannerState[];
  sessions: readonly SessionRow[];
  sessions_left_out: number;
  chosen: ChosenSession | null;
}

/**
 * The last hour as this frontend saw it, oldest first, with a moment every `every_seconds`.
 */
export interface OperationsHistory {
  every_seconds: number;
  moments: readonly LoadMoment[];
}

/**
 * A decision that differed from the pool's previous one, in size or reason.
 *
 * `at` is in Unix seconds. The pool had `was` replicas; the decision was `replicas`, because of
 * `why`; `detail` has the numbers. It held for `steps` steps. `applied` if this planner was the
 * leader and scaled the pool.
 */
export interface PastDecision {
  at: number;
  pool: string;
  was: number;
  replicas: number;
  why: string;
  detail: string;
  steps: number;
  applied: boolean;
}

/**
 * A planner: whether it `leads`, its latest decision for each pool in words, and its last
 * ones, oldest first. It decides every `step_seconds`.
 */
export interface PlannerState {
  place: ProcessEntry;
  leads: boolean;
  latest: readonly string[];
  past: readonly PastDecision[];
  step_seconds: number;
}

/**
 * The workers of one `component`, such as `pd_worker`; `name` is their title.
 */
export interface PoolState {
  component: string;
  name: string;
  workers: readonly WorkerState[];
}

/**
 * A process: `name` as in `auricle doctor`, its `instance` id in hex, and its `state`.
 *
 * One that is `unreachable` did not answer and has neither `host` nor `pid`; one that is
 * `silent` reports no load any more.
 */
export interface ProcessEntry {
  name: string;
  instance: string;
  state: "draining" | "ready" | "silent" | "unreachable";
  host: string;
  pid: number;
  version: string;
}

/**
 * A processor: open sessions (recordings included), those with speech, and those refused
 * lately. `admits` is how many live sessions it lets in now; `chunk_seconds` is the 95th
 * percentile of recent chunks, from audio to text.
 */
export interface ProcessorState {
  place: ProcessEntry;
  sessions: number;
  speaking: number;
  waiting: number;
  admits: number;
  chunk_seconds: number;
}

/**
 * A worker's last load report, `age_seconds` ago; see `load.reports.WorkerLoad`.
 */
export interface SeenWorker {
  component: string;
  instance: string;
  age_seconds: number;
  every_seconds: number;
  busy: number;
  requests_per_second: number;
  refused_per_second: number;
  failed_per_second: number;
  response_seconds: number;
  queue_wait_seconds: number;
  slots_used: number;
  slots: number;
  kv_usage: number;
  step_seconds: number;
  draining: boolean;
}

/**
 * An open session, and the instance id of its processor.
 */
export interface SessionRow {
  processor: string;
  state: SessionState;
}

/**
 * An open session, as its processor sees it, without any text.
 *
 * It has been open here for `open_seconds`. `audio_seconds` of audio were received, and
 * `segment_seconds` of them are in the open segment, number `segment`; `speaking` if the segment
 * has audio. `chunk_seconds` is the time of the last chunk from its audio to its text, 0 before
 * the first. `background` marks a recording's part. Workers are instance ids in hex, empty between
 * segments.
 */
export interface SessionState {
  session: string;
  tenant: string;
  open_seconds: number;
  audio_seconds: number;
  segment: number;
  segment_seconds: number;
  speaking: boolean;
  background: boolean;
  decodes: number;
  decodes_skipped: number;
  chunk_seconds: number;
  encode_worker: string;
  pd_worker: string;
}

/**
 * The slots of a slab: all, used ones, and leased ones, which cannot be evicted.
 */
export interface SlabState {
  slots: number;
  used: number;
  leased: number;
}

/**
 * Why a stream ended: the `code` of an error, or `going_away` when the frontend shuts down.
 */
export interface StreamEnd {
  code: string;
  message: string;
}

/**
 * The text up to `audio_seconds` of a session came `seconds` after that audio had come.
 */
export interface TextLag {
  audio_seconds: number;
  seconds: number;
}

/**
 * A worker: its last load report, the slots of its slab, and a PD worker's KV cache.
 */
export interface WorkerState {
  place: ProcessEntry;
  load: SeenWorker | null;
  slab: SlabState | null;
  kv: KvRoom | null;
}
