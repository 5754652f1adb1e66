"""The settings of the transformers engine. No library is imported here."""

from __future__ import annotations

from dataclasses import dataclass

from auricle.workers.pd.engine import EngineCapabilities


@dataclass(frozen=True)
class TransformersOptions:
    """The KV cache has room for `slots` prompts of up to `max_model_len` tokens each.

    At most `max_waiting` requests wait or run. With `limit_reuse`, KV is kept up to the last
    finished window only. `device` is a torch device.
    """

    dtype: str
    device: str
    threads: int
    max_model_len: int
    slots: int
    max_waiting: int
    limit_reuse: bool = True


def capabilities(limit_reuse: bool) -> EngineCapabilities:
    """Return the capabilities of plain decoding, the reference for other engines."""
    return EngineCapabilities(
        drafts=False, limited_reuse=limit_reuse, logprobs=True, kv_events=False
    )
