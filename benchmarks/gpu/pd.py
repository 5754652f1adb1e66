"""The PD worker's engine alone, in one process as on a GPU, with the decodes of live sessions.

A decode has a prompt of 400 tokens: three finished windows, whose KV an earlier decode has left in
the cache, then a growing window that is new each time, and the text so far. Its draft is the answer
without its end, or words that the answer does not contain. Every answer is compared with the answer
to the same prompt decoded alone and without a draft.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from auricle.checkpoints.files import ModelCheckpoint, open_checkpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.config.settings import PdWorkerSettings
from auricle.embeddings.layout import ITEM_BYTES, Bytes, SlabLayout, tenant_mark
from auricle.embeddings.memory import HostSlab
from auricle.embeddings.slots import SlotRef
from auricle.launcher.config import load_config, settings_for
from auricle.workers.pd.engine import Decoded, GenerateRequest
from auricle.workers.pd.vllm.engine import VllmEngine
from auricle.workers.pd.vllm.start import engine_options
from benchmarks.gpu.decodes import Drafts, closed_loop
from benchmarks.gpu.found import Found, Task
from benchmarks.prepared import checkpoint as prepared

_CONFIGS = {"cuda": "configs/h100-0.6b.yaml", "cpu": "configs/demo.yaml"}
_PROMPT, _FINISHED, _TEXT = 400, 3, 24
_NEW_TOKENS, _DRAFTED = 8, 6  # the rest is a new token and the end
_WORDS = (100, 1000)  # some tokens of the vocabulary
_SCALE = 0.02  # of embeddings, typical of a trained encoder
_TENANT = "benchmark"
_NO_DRAFTS = "_no_drafts"


@dataclass(frozen=True)
class _Speaker:
    """One session: its finished windows in the slab, its growing window's content, and its text."""

    finished: tuple[SlotRef, ...]
    growing: Bytes
    text: tuple[int, ...]


class Sessions:
    """Sessions that take turns on an engine. Each decode in flight has a slot for its window."""

    def __init__(
        self, engine: VllmEngine, slab: HostSlab, prompt: PromptFormat, count: int, dtype: str
    ) -> None:
        self._engine, self._slab, self._dtype = engine, slab, getattr(torch, dtype)
        self._stop_tokens = prompt.stop_tokens
        self._head, self._tail = prompt.head(""), prompt.tail("English")
        whole = slab.layout.max_length
        around = len(self._head) + len(self._tail) + _TEXT
        self._growing = _PROMPT - around - _FINISHED * whole
        self._numbers = itertools.count(1)
        self._random = np.random.default_rng(0)
        self._noise = torch.Generator().manual_seed(0)
        self._speakers = [self._speaker(number * _FINISHED) for number in range(count)]
        self._first_free = count * _FINISHED
        self._answers: list[tuple[int, ...]] = []

    def _speaker(self, slot: int) -> _Speaker:
        whole = self._slab.layout.max_length
        finished = (self._place(slot + i, self._embeddings(whole)) for i in range(_FINISHED))
        return _Speaker(tuple(finished), self._embeddings(self._growing), self._words(_TEXT))

    def _words(self, count: int) -> tuple[int, ...]:
        return tuple(self._random.integers(*_WORDS, count).tolist())

    def _embeddings(self, length: int) -> Bytes:
        values = torch.randn(length, self._slab.layout.width, generator=self._noise) * _SCALE
        flat: Bytes = values.to(self._dtype).view(torch.uint8).numpy().reshape(-1)
        return flat

    def _place(self, slot: int, payload: Bytes) -> SlotRef:
        """Write a window under a new key, like the growing window of every decode."""
        key, generation = uuid.uuid4().hex + tenant_mark(_TENANT), next(self._numbers)
        self._slab.write(slot, key, generation, payload)
        return SlotRef(key, slot, generation, payload.nbytes // self._slab.layout.row_bytes)

    async def learn(self) -> None:
        """Decode each session's prompt alone and without a draft, to get the right answers."""
        for number in range(len(self._speakers)):
            self._answers.append((await self._decode(number, 0, ())).tokens)

    async def turn(self, client: int, number: int, drafts: Drafts) -> tuple[Decoded, bool]:
        """Decode the next session's prompt for a client; return also whether it is right."""
        session = number % len(self._speakers)
        answer = self._answers[session]
        draft = {"none": (), "right": answer[:_DRAFTED], "wrong": self._words(_DRAFTED)}[drafts]
        decoded = await self._decode(session, client, draft)
        return decoded, decoded.tokens == answer

    async def _decode(self, session: int, client: int, draft: Sequence[int]) -> Decoded:
        speaker = self._speakers[session]
        growing = self._place(self._first_free + client, speaker.growing)
        return await self._engine.generate(
            GenerateRequest(
                growing.key, self._head, [*speaker.finished, growing],
                [*self._tail, *speaker.text], self._stop_tokens, _NEW_TOKENS, priority=1,
                tenant=_TENANT, draft=draft, reusable_windows=_FINISHED,
            )
        )  # fmt: skip


def measure(task: Task) -> Found:
    """Measure with drafts, or with an engine that verifies none (`pd-no-drafts`)."""
    drafts = task.part == "pd"
    rows = asyncio.run(_rows(task, drafts=drafts))
    found = Found(details={"decodes" if drafts else "decodes_no_drafts": rows})
    best = max((r for r in rows if r["drafts"] != "wrong"), key=lambda r: r["decodes_per_s"])
    suffix = "" if drafts else _NO_DRAFTS
    found.put(f"pd_decodes_per_s{suffix}", best["decodes_per_s"])
    found.put(f"pd_decode_p95_ms{suffix}", best["p95_ms"])
    # The minimum of all rows, because not even one wrong token is acceptable.
    found.put(f"pd_same_share{suffix}", min(row["same_share"] for row in rows))
    if drafts:
        found.put("pd_decodes_per_s_wrong_drafts", rows[-1]["decodes_per_s"])
        found.put("pd_steps", best["steps"])
        found.put("pd_accepted_share", best["accepted_share"], "no draft was verified")
        found.put("pd_cores", best["api_cores"] + best["engine_cores"])
        found.put("pd_gpu_busy_share", best["gpu_busy_share"], best["why_not_busy"])
    return found


async def _rows(task: Task, *, drafts: bool) -> list[dict[str, Any]]:
    """Measure all numbers of decodes in flight; with `drafts`, measure wrong drafts last."""
    scale = task.scale
    checkpoint = open_checkpoint(prepared(scale.checkpoint))
    settings = _settings(task, checkpoint, drafts=drafts)
    geometry, prompt = checkpoint.geometry, PromptFormat(checkpoint)
    layout = SlabLayout(geometry.hidden_size, ITEM_BYTES[task.dtype], geometry.window_embeddings)
    slab = HostSlab.create_shared(layout, scale.sessions * _FINISHED + max(scale.decodes))
    options = engine_options(settings, checkpoint, "")
    rows: list[dict[str, Any]] = []
    engine = await asyncio.to_thread(VllmEngine, options, slab, prompt.audio_token)
    try:
        sessions = Sessions(engine, slab, prompt, scale.sessions, task.dtype)
        await sessions.learn()
        runs: list[tuple[int, Drafts]] = [
            (clients, "right" if drafts else "none") for clients in scale.decodes
        ]
        for clients, kind in [*runs, (max(scale.decodes), "wrong")] if drafts else runs:
            await closed_loop(sessions, clients, scale.seconds / 4, kind, task)  # warms up
            rows.append(await closed_loop(sessions, clients, scale.seconds, kind, task))
            print(rows[-1], flush=True)
    finally:
        slab.unlink()
        await engine.close()
    return rows


def _settings(task: Task, checkpoint: ModelCheckpoint, *, drafts: bool) -> PdWorkerSettings:
    """Return the settings of a PD worker with the device for itself, as a user would set it."""
    config = Path(_CONFIGS[task.device])
    overrides = [
        f"--Common.model={checkpoint.path}",
        f"--Common.dtype={task.dtype}",
        f"--PdWorker.max_requests={max(2, *task.scale.decodes)}",
    ]
    if not drafts:
        overrides.append("--PdWorker.draft_tokens=0")
    found: PdWorkerSettings = settings_for("PdWorker", load_config(config, overrides), str(config))
    return found
