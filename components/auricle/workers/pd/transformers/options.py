"""What of the settings an engine of transformers depends on. No library is imported here."""

from __future__ import annotations

from dataclasses import dataclass

from auricle.workers.pd.engine import EngineCapabilities


@dataclass(frozen=True)
class TransformersOptions:
    """`slots` prompts have room in the KV cache, each of up to `max_model_len` tokens.

    At most `max_waiting` requests wait or run. With `limit_reuse`, KV is kept up to the last
    finished window only. `device` is torch's name of it.
    """

    dtype: str
    device: str
    threads: int
    max_model_len: int
    slots: int
    max_waiting: int
    limit_reuse: bool = True


def capabilities(limit_reuse: bool) -> EngineCapabilities:
    """Return what this engine can do: plain decoding, as a reference for engines that do more."""
    return EngineCapabilities(
        drafts=False, limited_reuse=limit_reuse, logprobs=True, kv_events=False
    )
