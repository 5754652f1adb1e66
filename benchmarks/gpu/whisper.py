"""Whisper: its encoder's passes, and the PD worker's engine with a decoder that attends to audio.

A decode attends to 10 s of audio, new each time, and to the cached silence behind it. Its draft is
the answer without its end. Every answer is compared with the answer to the same prompt decoded
alone and without a draft, and with the output of transformers' own decoder for the same embeddings.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.whisper.modeling_whisper import WhisperForConditionalGeneration

from auricle.checkpoints.files import ModelCheckpoint, open_checkpoint
from auricle.checkpoints.prompt import PromptFormat, suppressed_tokens
from auricle.checkpoints.whole_chunks import SILENT, WhisperChunks
from auricle.config.settings import PdWorkerSettings
from auricle.embeddings.layout import ITEM_BYTES, SlabLayout, tenant_mark
from auricle.embeddings.memory import HostSlab
from auricle.embeddings.slots import SlotRef
from auricle.process.device import DTYPES
from auricle.workers.encode.encoder import MelWindow
from auricle.workers.encode.whisper import WhisperChunkEncoder
from auricle.workers.pd.engine import Decoded, GenerateRequest
from auricle.workers.pd.vllm.engine import VllmEngine
from auricle.workers.pd.vllm.start import engine_options
from benchmarks.gpu.decodes import Drafts, closed_loop
from benchmarks.gpu.device import Device
from benchmarks.gpu.found import Found, Task
from benchmarks.prepared import checkpoint as prepared

_AUDIO_SECONDS, _FRAMES = 10, 100  # a second
_POSITIONS = (_AUDIO_SECONDS + 1) * _FRAMES // 2  # with the second of silence behind the audio
_NEW_TOKENS, _DRAFTED = 8, 6
_DECODES = (1, 16, 64)  # in flight
_SESSIONS = 16
_CHUNKS = (1, 8, 32)  # of a pass; the figure is for the second number
_TENANT = "benchmark"
_FLOOR = -6.0
_GPU_SHARE = 0.4


def measure(task: Task) -> Found:
    """Measure the encoder (`whisper-encoder`), or the engine: figures of the most decodes per
    second.
    """
    checkpoint = open_checkpoint(prepared(task.scale.whisper))
    return (
        _encoder(checkpoint, task) if task.part.endswith("encoder") else _engine(checkpoint, task)
    )


def _encoder(checkpoint: ModelCheckpoint, task: Task) -> Found:
    found = Found()
    found.details["whisper_passes"] = passes = _passes(checkpoint, task)
    found.put("whisper_encoder_pass_ms", passes[1]["pass_ms"])
    (here, *_), _, chunk = _embeddings(checkpoint, task)
    exact = WhisperChunkEncoder(checkpoint, "float32", "cpu", 4).encode([chunk])[0]
    found.put("whisper_encoder_error", float((here - exact).abs().max() / exact.abs().max()))
    return found


def _engine(checkpoint: ModelCheckpoint, task: Task) -> Found:
    found = Found()
    audio, silence, _ = _embeddings(checkpoint, task)
    if task.on_gpu:
        torch.cuda.empty_cache()  # vLLM takes a share of the whole GPU's
    rows, asked = asyncio.run(_rows(checkpoint, task, audio, silence))
    found.details["whisper_decodes"] = rows
    best = max(rows, key=lambda row: row["decodes_per_s"])
    found.put("whisper_decodes_per_s", best["decodes_per_s"])
    found.put("whisper_decode_p95_ms", best["p95_ms"])
    found.put("whisper_same_share", min(row["same_share"] for row in rows))
    found.details["whisper_stock"] = stock = _stock(checkpoint, task, asked)
    found.put("whisper_stock_share", stock["equal_share"])
    return found


def _chunk(seconds: float, rng: np.random.Generator, geometry: WhisperChunks) -> MelWindow:
    frames = round(seconds * _FRAMES) + 2
    return MelWindow(rng.uniform(-8, 2, (frames, geometry.mel_bins)).astype(np.float32), _FLOOR)


def _geometry(checkpoint: ModelCheckpoint) -> WhisperChunks:
    assert isinstance(checkpoint.geometry, WhisperChunks)
    return checkpoint.geometry


def _passes(checkpoint: ModelCheckpoint, task: Task) -> list[dict[str, Any]]:
    """Return the times of passes over chunks of 1 to 28 s, before cached silence."""
    device, geometry = Device(task.device), _geometry(checkpoint)
    encoder = WhisperChunkEncoder(checkpoint, task.dtype, task.device, 1)
    rng, rows = np.random.default_rng(0), []
    for count in _CHUNKS:
        ages = np.linspace(2, 29, count + 2)[1:-1]  # with the second of silence
        chunks = [_chunk(age, rng, geometry) for age in ages]
        blocks = [encoder.convolve(encoder.blocks(one)) for one in chunks]

        def run(blocks: list[Any] = blocks) -> None:
            encoder.attend(blocks)

        seconds = device.median_seconds(run, task.scale.seconds / 4)
        rows.append({"chunks": count, "pass_ms": 1000 * seconds})
        print(rows[-1], flush=True)
    return rows


def _embeddings(
    checkpoint: ModelCheckpoint, task: Task
) -> tuple[list[torch.Tensor], torch.Tensor, MelWindow]:
    """Return embeddings of a chunk of each session and of silence; and the first chunk."""
    rng, geometry = np.random.default_rng(1), _geometry(checkpoint)
    chunks = [_chunk(_POSITIONS / 50, rng, geometry) for _ in range(_SESSIONS)]
    silent = np.full((geometry.window_frames, geometry.mel_bins), SILENT, np.float32)
    encoder = WhisperChunkEncoder(checkpoint, task.dtype, task.device, 4)
    windows = [*chunks, MelWindow(silent, _FLOOR)]
    *audio, silence = (encoder.encode([window])[0].cpu() for window in windows)
    return audio, silence, chunks[0]


class _Sessions:
    """Sessions that take turns. Each decode in flight has a slot for its audio."""

    def __init__(
        self,
        engine: VllmEngine,
        slab: HostSlab,
        prompt: PromptFormat,
        audio: list[torch.Tensor],
        silence: torch.Tensor,
    ) -> None:
        self._engine, self._slab, self._prompt, self._audio = engine, slab, prompt, audio
        self._numbers = itertools.count(1)
        self._random = np.random.default_rng(0)
        self._silence = self._place(0, silence)
        self.answers: list[tuple[int, ...]] = []
        self.prompt = (*prompt.head(""), *prompt.tail("English"))

    def _place(self, slot: int, rows: torch.Tensor) -> SlotRef:
        key, generation = uuid.uuid4().hex + tenant_mark(_TENANT), next(self._numbers)
        payload = rows.contiguous().view(torch.uint8).numpy().reshape(-1)
        self._slab.write(slot, key, generation, payload)
        return SlotRef(key, slot, generation, len(rows))

    async def learn(self) -> None:
        """Decode each session's prompt alone and without a draft, to get the right answers."""
        for number in range(len(self._audio)):
            self.answers.append((await self._decode(number, 0, ())).tokens)

    async def turn(self, client: int, number: int, drafts: Drafts) -> tuple[Decoded, bool]:
        """See `decodes.Asked`."""
        session = number % len(self._audio)
        answer = self.answers[session]
        draft = answer[:_DRAFTED] if drafts == "right" else ()
        decoded = await self._decode(session, client, draft)
        return decoded, decoded.tokens == answer

    async def _decode(self, session: int, client: int, draft: tuple[int, ...]) -> Decoded:
        audio = self._place(1 + client, self._audio[session])
        return await self._engine.generate(
            GenerateRequest(
                audio.key, (), [audio, self._silence], self.prompt, self._prompt.stop_tokens,
                _NEW_TOKENS, priority=1, tenant=_TENANT, draft=draft,
            )
        )  # fmt: skip


async def _rows(
    checkpoint: ModelCheckpoint, task: Task, audio: list[torch.Tensor], silence: torch.Tensor
) -> tuple[list[dict[str, Any]], list[tuple[torch.Tensor, tuple[int, ...], tuple[int, ...]]]]:
    """Return figures by the decodes in flight; and each session's embeddings, prompt and answer."""
    prompt, geometry = PromptFormat(checkpoint), _geometry(checkpoint)
    layout = SlabLayout(geometry.hidden_size, ITEM_BYTES[task.dtype], geometry.window_embeddings)
    decodes = _DECODES if task.on_gpu else _DECODES[:1]
    slab = HostSlab.create_shared(layout, 1 + max(decodes))
    options = engine_options(_settings(checkpoint.path, task), checkpoint, "")
    rows = []
    engine = await asyncio.to_thread(VllmEngine, options, slab, prompt.audio_token)
    try:
        sessions = _Sessions(engine, slab, prompt, audio, silence)
        await sessions.learn()
        for clients in decodes:
            await closed_loop(sessions, clients, task.scale.seconds / 4, "right", task)  # warms up
            rows.append(await closed_loop(sessions, clients, task.scale.seconds, "right", task))
            print(rows[-1], flush=True)
    finally:
        slab.unlink()
        await engine.close()
    heard = [torch.cat([one, silence[len(one) :]]) for one in audio]
    asked = [(h, sessions.prompt, a) for h, a in zip(heard, sessions.answers, strict=True)]
    return rows, asked


def _settings(model: Path, task: Task) -> PdWorkerSettings:
    return PdWorkerSettings(
        model=model, dtype=task.dtype, block_size=32, max_requests=max(_DECODES),
        max_model_len=448, gpu_memory_share=_GPU_SHARE, kv_cache_gib=1, threads=4,
    )  # fmt: skip


@torch.inference_mode()
def _stock(
    checkpoint: ModelCheckpoint,
    task: Task,
    asked: list[tuple[torch.Tensor, tuple[int, ...], tuple[int, ...]]],
) -> dict[str, Any]:
    """Return the share of answers that transformers' decoder gives too, token for token.

    For tokens that it would not choose, `largest_gap` is by how much they are less likely to it:
    in nats, where a rounding error is small.
    """
    model: Any = WhisperForConditionalGeneration.from_pretrained(
        checkpoint.path, dtype=DTYPES[task.dtype]
    )
    model = model.to(task.device).eval()
    vocabulary = checkpoint.geometry.vocab_size
    never = torch.tensor(suppressed_tokens(checkpoint.path, checkpoint.architecture, vocabulary))
    equal, gaps = [], []
    for heard, prompt, answer in asked:
        ids = torch.tensor([[*prompt, *answer[:-1]]], device=task.device)
        output = BaseModelOutput(last_hidden_state=heard[None].to(task.device))
        logits = model(encoder_outputs=output, decoder_input_ids=ids).logits[0].float().cpu()
        logits = logits[len(prompt) - 1 :].index_fill(1, never, -torch.inf)
        gap = logits.max(1).values - logits[torch.arange(len(answer)), torch.tensor(answer)]
        equal.append(bool((gap == 0).all()))
        gaps.append(float(gap.max()))
    return {"equal_share": float(np.mean(equal)), "largest_gap": max(gaps), "answers": len(asked),
            "distinct": len({answer for *_, answer in asked})}  # fmt: skip
