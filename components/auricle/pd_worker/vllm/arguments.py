"""Parts of vLLM's configuration that are structures of their own."""

from __future__ import annotations

from vllm.config import KVEventsConfig


def kv_events(address: str) -> KVEventsConfig:
    """Return the configuration that publishes KV events at `address`; empty for none."""
    return KVEventsConfig(
        enable_kv_cache_events=bool(address),
        publisher="zmq" if address else "null",
        endpoint=address,
    )


def worker_class(draft_tokens: int) -> str:
    """Return the name of the class that runs the model; ours verifies drafts."""
    return "auricle.pd_worker.vllm.device_worker.DeviceWorker" if draft_tokens else "auto"


def speculation(draft_tokens: int) -> dict[str, object] | None:
    """Return the configuration that verifies so many tokens of a given draft; None for 0."""
    if not draft_tokens:
        return None
    return {
        "method": "custom_class",
        "model": "auricle.pd_worker.vllm.scheduler.NoProposer",
        "num_speculative_tokens": draft_tokens,
    }
