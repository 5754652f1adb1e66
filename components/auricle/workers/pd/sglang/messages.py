"""Messages between the engine and its process. SGLang is not imported here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from auricle.checkpoints.architectures.base import DecoderKind
from auricle.workers.pd.engine import Decoded, EngineCapabilities, GenerateRequest

# Our class for each text decoder; others are refused before the start.
DECODERS: dict[DecoderKind, str] = {
    "Qwen3ForCausalLM": "SglangQwen3Decoder",
    "Qwen3MoeForCausalLM": "SglangQwen3MoeDecoder",
    "Qwen2ForCausalLM": "SglangQwen2Decoder",
}


@dataclass(frozen=True)
class SglangOptions:
    """The first message to the process: the part of SGLang's configuration that settings control.

    `model` is the checkpoint's folder, `slab` is `slabs.export`'s, and `audio_token` the
    placeholder of embeddings; a text model has neither. The KV cache has room for `kv_tokens`;
    None is the rest of `memory_share` of a GPU. `device` is a torch device.
    """

    model: str
    dtype: str
    device: str
    max_model_len: int
    max_requests: int
    kv_tokens: int | None
    memory_share: float
    slab: dict[str, Any] | None = None
    audio_token: int | None = None


@dataclass(frozen=True)
class Loaded:
    """The model is loaded, with a KV cache of `kv_tokens`; or the start has failed for `reason`."""

    kv_tokens: int = 0
    reason: str | None = None


@dataclass(frozen=True)
class Submit:
    """Decode a request, which other messages name by `number`."""

    number: int
    request: GenerateRequest


@dataclass(frozen=True)
class Cancel:
    """End a request. The reply is its `Ended`, once no pass reads its slots any more."""

    number: int


@dataclass(frozen=True)
class Ask:
    """A question that is answered with the same message, between two passes."""

    number: int


@dataclass(frozen=True)
class Ended:
    """A request's end: its output; or the key of a window that its slot does not hold and why.

    Without both it was cancelled, or failed for the reason `wrong`.
    """

    number: int
    decoded: Decoded | None = None
    missing: str | None = None
    wrong: str = ""


@dataclass(frozen=True)
class Stepped:
    """A pass that took `seconds`; 0 for a prefill. `kv_usage` is the share of the KV cache."""

    seconds: float
    kv_usage: float


def capabilities() -> EngineCapabilities:
    """Return SGLang's capabilities.

    It verifies drafts of its own making only. It keeps all KV of a finished request by its own
    policy. The hashes of its KV events omit the tenant.
    """
    return EngineCapabilities(drafts=False, limited_reuse=False, logprobs=True, kv_events=False)
