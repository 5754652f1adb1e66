"""Findings on room: slots of slabs, KV cache, the longest prompt."""

from __future__ import annotations

from collections.abc import Iterator

from auricle.findings.finding import Finding, Process, Processes
from auricle.messages.diagnosis import Diagnosis, KvRoom, SegmentNeed

_FULL_SHARE = 0.9
_SETTINGS = {
    "encode_worker": "EncodeWorker.slots",
    "pd_worker": "PdWorker.landing_slots",
    "align_encode_worker": "AlignEncodeWorker.slots",
    "align_worker": "AlignWorker.landing_slots",
}


def slots(_diagnosis: Diagnosis, processes: Processes) -> Iterator[Finding]:
    """Slabs in which nearly every slot is leased. (That all have content is usual: a cache.)"""
    for process, said in processes.described():
        slab = said.parts.slab
        if slab is not None and slab.leased >= _FULL_SHARE * slab.slots:
            setting = _SETTINGS.get(process.answer.component, "the slab")
            yield Finding(
                f"{slab.leased} of {slab.slots} slots of {process.name} are leased.",
                "With all of them leased, requests are refused as overloaded.",
                f"Raise {setting}, or add workers. If sessions are few, something keeps leases: "
                "see the logs of its readers.",
            )


def prompts(_diagnosis: Diagnosis, processes: Processes) -> Iterator[Finding]:
    """PD workers that cannot take the longest segment."""
    if (need := _need(processes)) is None:
        return
    for process, said in processes.described():
        if (room := said.parts.kv) is not None:
            yield from _too_small(process, room, need)


def _too_small(process: Process, room: KvRoom, need: SegmentNeed) -> Iterator[Finding]:
    segment = f"a segment of {need.seconds:g} s needs {need.tokens} tokens and those of its context"
    lower = "or lower Common.max_segment_seconds, the same in all processes."
    taken = need.tokens + room.attended
    if room.max_model_len < need.tokens:
        yield Finding(
            f"{process.name} takes {room.max_model_len} tokens, but {segment}.",
            "The decodes at the end of long segments are refused, which ends their sessions.",
            f"Raise PdWorker.max_model_len, {lower}",
        )
    if room.tokens < taken:
        attended = f" (and {room.attended} positions that it attends to)" * (room.attended > 0)
        yield Finding(
            f"The KV cache of {process.name} holds {room.tokens} tokens, but {segment}{attended}.",
            "The end of a long segment cannot be decoded, even if nothing else is.",
            f"Raise PdWorker.kv_blocks (or kv_cache_gib, on a GPU gpu_memory_share), {lower}",
        )
    elif room.tokens < taken * room.max_requests:
        at_once = room.tokens // taken
        yield Finding(
            f"The KV cache of {process.name} holds {at_once} of the longest segments, and "
            f"{room.max_requests} requests are taken at a time.",
            "If that many segments are long at once, some are prefilled again and again.",
            "Raise PdWorker.kv_blocks (or kv_cache_gib, on a GPU gpu_memory_share), or lower "
            "PdWorker.max_requests.",
            wrong=False,
        )


def _need(processes: Processes) -> SegmentNeed | None:
    needs = [s.parts.segment for _, s in processes.described() if s.parts.segment is not None]
    return max(needs, key=lambda need: need.tokens, default=None)
