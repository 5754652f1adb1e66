"""What the PD worker needs of an engine, and what an engine may leave out. No engine is imported.

An engine runs a text decoder whose audio arrives as embeddings in the landing slab. Each kind of
engine has a folder of its own beside this file; docs/engines.md compares them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Protocol

from auricle.checkpoints.files import ModelCheckpoint
from auricle.checkpoints.text_model import TextModel
from auricle.config.settings import PdWorkerSettings, TranslateWorkerSettings
from auricle.embeddings.slab import Slab
from auricle.embeddings.slots import SlotRef
from auricle.load.pools import check_place
from auricle.load.reporter import EngineState


@dataclass(frozen=True)
class EngineCapabilities:
    """What an engine can do beyond plain decoding. Nobody asks it for what it does not declare.

    `drafts`: verifies a guess of the output. `limited_reuse`: keeps KV of the first windows of a
    prompt only, and so has room for more sessions. `logprobs`: gives the log probability of each
    token of the output. `kv_events`: publishes which blocks of KV it stores and evicts.
    """

    drafts: bool
    limited_reuse: bool
    logprobs: bool
    kv_events: bool


@dataclass(frozen=True)
class GenerateRequest:
    """Greedy decoding of head · windows · tail, up to a stop token or `max_tokens`.

    `head`, `tail`, `stop_tokens` and `draft` are token ids; the checkpoint's own end tokens stop
    the output, too. The embeddings of `windows` are in the landing slab. The lowest `priority`
    runs first. KV is reused within a `tenant` only.

    `draft` is a guess of the output, and changes neither it nor its `logprobs`; it is empty
    without `drafts`. With `allowed` the output has these tokens only, and the log probabilities
    are those among them. KV is kept up to the end of the first `reusable_windows` windows,
    without `limited_reuse` (None) as the engine likes.
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
    """When an engine queued and scheduled a request and generated tokens, in monotonic seconds."""

    queued: float
    scheduled: float
    first_token: float
    last_token: float


@dataclass(frozen=True)
class Decoded:
    """Greedy output; `finish` is `stop` or `length`. A stop token is the last of `tokens`.

    `logprobs` are those of `tokens`, empty unless asked for. `steps` counts the decode steps, which
    run in sequence. Of the `draft_tokens` verified, `accepted_tokens` were accepted.
    `cached_tokens` of the `prompt_tokens` were found in the KV cache.
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
        """What the engine did for it, by the units of load reports."""
        return {"prefill_tokens": self.prompt_tokens - self.cached_tokens, "steps": self.steps}


class Engine(Protocol):
    """A running engine. All methods must be called on one event loop.

    `kv_tokens` is how many tokens its KV cache has room for; `attended` how many of them a request
    takes for positions of cross-attention. `dead` is set as soon as the engine
    learns that it has ended; it never works again then.
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

        Its windows' slots are pinned until this call ends: an engine that is cancelled ends the
        request, and returns when it no longer reads them.

        There is no deadline here; the caller sets one. Raises WindowsMissing if a slot does not
        hold its window, BadRequest if the prompt is too long, WorkerUnavailable if the engine has
        ended, and AuricleError if it failed this request.
        """
        ...

    async def answers(self) -> None:
        """Return once the engine has answered, which it does between two steps.

        Raises ProcessFailed if it has ended.
        """
        ...

    async def check_health(self) -> None:
        """Raise if the engine has ended, without waiting for an answer."""
        ...

    async def close(self) -> None:
        """Stop the engine, whether it works or not."""
        ...


class EngineKind(Protocol):
    """How engines of one kind are checked and started. To import it imports no engine yet."""

    @property
    def name(self) -> str:
        """What logs and health reports call it."""
        ...

    def capabilities(self, settings: PdWorkerSettings) -> EngineCapabilities:
        """Return what an engine with these settings will declare."""
        ...

    def libraries(self) -> Sequence[str]:
        """Return the modules that it imports late. Sets variables that they read."""
        ...

    def built_for(self, settings: PdWorkerSettings) -> str:
        """Return in words what it is built for. Whether there is a device is not asked.

        Raises SettingsError if it would not run so.
        """
        ...

    def check_device(self, settings: PdWorkerSettings) -> None:
        """Raise SettingsError if there is no device, or the engine would not run on it so."""
        ...

    def device(self) -> str | None:
        """Return the GPU that passes run on; None for a CPU."""
        ...

    def begin(self, settings: PdWorkerSettings) -> None:
        """Begin to load, in another process, what needs no checkpoint. Does not wait for it."""
        ...

    def check_memory(self, settings: PdWorkerSettings, checkpoint: ModelCheckpoint) -> None:
        """Raise SettingsError if what the settings order is more than this process may have."""
        ...

    def start(
        self,
        settings: PdWorkerSettings,
        checkpoint: ModelCheckpoint,
        slab: Slab,
        audio_token: int | None,
        kv_events: str,
    ) -> Engine:
        """Load the model and return an engine that takes its audio from `slab`.

        Blocks until then: call it in a worker thread. `kv_events` is the ZeroMQ address for KV
        events, empty for none. `audio_token` stands for embeddings in prompts; None where they
        have no place there. Raises ProcessFailed if the engine cannot start, CheckpointError
        if the weights do not fit.
        """
        ...


class TextEngineKind(Protocol):
    """As `EngineKind`, of engines with a text model: they take no windows."""

    @property
    def name(self) -> str: ...

    def libraries(self) -> Sequence[str]: ...

    def built_for(self, settings: TranslateWorkerSettings) -> str: ...

    def check_device(self, settings: TranslateWorkerSettings) -> None: ...

    def check_memory(self, settings: TranslateWorkerSettings, model: TextModel) -> None: ...

    def start(self, settings: TranslateWorkerSettings, model: TextModel) -> Engine:
        """Load the model and return an engine. Blocks and raises as `EngineKind.start` does."""
        ...


# Who gets one of an engine's places, and who runs first.

_FINALS_SHARE = 8  # one place in so many is kept for finals, because users wait for them
# An engine runs the lowest number first.
_FINAL, _PARTIAL, _BACKGROUND = 0, 1, 2


def admit(in_use: int, places: int, *, final: bool, background: bool) -> None:
    """Raise Overloaded unless there is a place for a request of this kind."""
    kept = 0 if final else max(1, places // _FINALS_SHARE)
    check_place(in_use, places, background=background, kept=kept)


def priority(*, final: bool, background: bool) -> int:
    """Return an engine's priority of a request."""
    if background:
        return _BACKGROUND
    return _FINAL if final else _PARTIAL
