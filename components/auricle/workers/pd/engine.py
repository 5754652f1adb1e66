"""The interface of engines, and the admission of requests. No engine is imported.

An engine runs a text decoder whose audio arrives as embeddings in the landing slab. Each kind of
engine is a subpackage; docs/engines.md compares them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Protocol

from auricle.checkpoints.files import ModelCheckpoint
from auricle.checkpoints.text_model import TextModel
from auricle.config.settings import PdWorkerSettings, TranslateWorkerSettings
from auricle.config.workers import DecoderSettings
from auricle.embeddings.slab import Slab
from auricle.embeddings.slots import SlotRef
from auricle.load.pools import check_place
from auricle.load.reporter import EngineState


@dataclass(frozen=True)
class EngineCapabilities:
    """The capabilities of an engine beyond plain decoding; no others are used.

    `drafts`: verifies a guess of the output. `limited_reuse`: keeps KV of the first windows of a
    prompt only, and so has room for more sessions. `logprobs`: returns the log probability of each
    output token. `kv_events`: publishes the KV blocks that it stores and evicts.
    """

    drafts: bool
    limited_reuse: bool
    logprobs: bool
    kv_events: bool


@dataclass(frozen=True)
class GenerateRequest:
    """Greedy decoding of head · windows · tail, up to a stop token or `max_tokens`.

    `head`, `tail`, `stop_tokens` and `draft` are token ids; the checkpoint's end tokens also stop
    the output. The embeddings of `windows` are in the landing slab. The lowest `priority` runs
    first. KV is reused within a `tenant` only.

    `draft` is a guess of the output, and changes neither it nor its `logprobs`; it is empty
    without the capability `drafts`. With `allowed` the output has only these tokens, with log
    probabilities among them. KV is kept up to the end of the first `reusable_windows` windows;
    None, without `limited_reuse`, leaves that to the engine.
    """

    request_id: str
    head: Sequence[int]
    windows: Sequence[SlotRef]
    tail: Sequence[int]
    stop_tokens: Sequence[int]
    max_tokens: int
    _: KW_ONLY
    priority: int
    tenant: str
    draft: Sequence[int] = ()
    reusable_windows: int | None = 0
    logprobs: bool = False
    allowed: Sequence[int] = ()


@dataclass(frozen=True)
class Timings:
    """Times of a request in monotonic seconds."""

    queued: float
    scheduled: float
    first_token: float
    last_token: float


@dataclass(frozen=True)
class Decoded:
    """Greedy output; `finish` is `stop` or `length`. A stop token is the last of `tokens`.

    `logprobs` belong to `tokens`, empty unless requested. `steps` counts the sequential decode
    steps. Of the `draft_tokens` verified, `accepted_tokens` were accepted. `cached_tokens` of the
    `prompt_tokens` were found in the KV cache.
    """

    tokens: tuple[int, ...]
    finish: str
    prompt_tokens: int
    cached_tokens: int
    steps: int
    draft_tokens: int
    accepted_tokens: int
    timings: Timings
    logprobs: tuple[float, ...] = ()

    @property
    def work(self) -> dict[str, float]:
        """The engine's work for it, in the units of load reports."""
        return {"prefill_tokens": self.prompt_tokens - self.cached_tokens, "steps": self.steps}


class Engine(Protocol):
    """A running engine. All methods must be called on one event loop.

    `kv_tokens` is the capacity of its KV cache; each request also takes `attended` of them for
    cross-attention. `dead` is set once the engine has detected its own end, which is permanent.
    """

    @property
    def capabilities(self) -> EngineCapabilities: ...

    @property
    def state(self) -> EngineState: ...

    @property
    def dead(self) -> asyncio.Event: ...

    @property
    def kv_tokens(self) -> int: ...

    @property
    def attended(self) -> int: ...

    async def generate(self, request: GenerateRequest) -> Decoded:
        """Decode a request.

        Its windows' slots are pinned until this call ends: when cancelled, the engine ends the
        request and returns once it no longer reads them. The caller sets a deadline.

        Raises WindowsMissing if a slot does not hold its window, BadRequest if the prompt is too
        long, WorkerUnavailable if the engine has ended, and AuricleError if this request failed.
        """
        ...

    async def answers(self) -> None:
        """Return once the engine has answered, between two steps.

        Raises ProcessFailed if it has ended.
        """
        ...

    async def check_health(self) -> None:
        """Raise if the engine has ended, without waiting for an answer."""
        ...

    async def close(self) -> None:
        """Stop the engine, also if it is broken."""
        ...


class KindOnDevice(Protocol):
    """The part of a kind of engine that is independent of the model.

    Its module does not import the engine.
    """

    @property
    def name(self) -> str: ...

    def libraries(self) -> Sequence[str]:
        """Return the modules that are imported late. Sets variables that they read."""
        ...

    def built_for(self, settings: DecoderSettings) -> str:
        """Return in words the device that it is built for, without checking the device itself.

        Raises SettingsError for settings that it cannot run.
        """
        ...

    def check_device(self, settings: DecoderSettings) -> None:
        """Raise SettingsError if the device is missing, or cannot run these settings."""
        ...

    def device(self) -> str | None:
        """Return the GPU of passes; None for a CPU."""
        ...

    def begin(self, settings: DecoderSettings) -> None:
        """Load libraries, if the engine starts sooner or smaller by that.

        Call it once, if at all, before this process has threads. Blocks for seconds.
        """
        ...


class EngineKind(KindOnDevice, Protocol):
    """Checks and starts engines of one kind with audio in prompts, or in cross-attention."""

    def capabilities(self, settings: PdWorkerSettings) -> EngineCapabilities: ...

    def check_memory(self, settings: PdWorkerSettings, checkpoint: ModelCheckpoint) -> None:
        """Raise SettingsError if the settings require more memory than this process may use."""
        ...

    def start(
        self,
        settings: PdWorkerSettings,
        checkpoint: ModelCheckpoint,
        slab: Slab,
        audio_token: int | None,
        kv_events: str,
    ) -> Engine:
        """Load the model and return an engine with audio from `slab`.

        Blocks: call it in a worker thread. `kv_events` is the ZeroMQ address for KV events, empty
        for none. `audio_token` is the placeholder of embeddings in prompts; None for
        cross-attention. Raises ProcessFailed if the engine cannot start, CheckpointError if the
        weights do not match.
        """
        ...


class TextEngineKind(KindOnDevice, Protocol):
    """Checks and starts engines of one kind with a text model, which takes no windows."""

    def check_memory(self, settings: TranslateWorkerSettings, model: TextModel) -> None:
        """Raise SettingsError if the model, its KV cache or its prompts do not fit."""
        ...

    def start(self, settings: TranslateWorkerSettings, model: TextModel) -> Engine:
        """Load the model. Blocks and raises as `EngineKind.start` does."""
        ...


_FINALS_SHARE = 8  # one slot in eight is reserved for finals, because users wait for them
# An engine runs the lowest number first.
_FINAL, _PARTIAL, BACKGROUND = 0, 1, 2


def admit(in_use: int, slots: int, *, final: bool, background: bool) -> None:
    """Raise Overloaded unless a slot is free for a request of this kind."""
    kept = 0 if final else max(1, slots // _FINALS_SHARE)
    check_place(in_use, slots, background=background, kept=kept)


def priority(*, final: bool, background: bool) -> int:
    if background:
        return BACKGROUND
    return _FINAL if final else _PARTIAL
