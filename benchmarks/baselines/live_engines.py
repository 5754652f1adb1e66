"""The engines of live baselines: transformers in a thread, or vLLM's AsyncLLM."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks.baselines.protocol import DecodeJob
from benchmarks.baselines.stock_vllm import STOPS, set_environment
from models.training.prompts import prompt_ids

_FORCED = "language English<asr_text>"


class LiveEngine(Protocol):
    """Decodes 16 kHz float samples greedily after a forced prefix."""

    async def decode(
        self, samples: np.ndarray, prefix: Sequence[int], max_tokens: int
    ) -> list[int]:
        """Return the new tokens, without the end of turn."""
        ...

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of an answer."""
        ...


class _Prompt:
    """The token ids around the audio; the language is English, as in auricle's sessions."""

    def __init__(self, model: Path) -> None:
        from transformers import AutoTokenizer

        self.tokenizer: Any = AutoTokenizer.from_pretrained(model, local_files_only=True)
        ids = prompt_ids(self.tokenizer, "", 1)
        self.pad = self.tokenizer.convert_tokens_to_ids("<|audio_pad|>")
        at = ids.index(self.pad)
        self.head = list(ids[:at])
        self.tail = [*ids[at + 1 :], *self.tokenizer(_FORCED).input_ids]
        self.stops = [self.tokenizer.convert_tokens_to_ids(token) for token in STOPS]

    def text(self, tokens: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True)).strip()


class Transformers:
    """Baseline (a): one decode at a time, in a thread."""

    def __init__(self, model: Path, threads: int) -> None:
        from benchmarks.baselines.transformers_direct import load

        self._prompt = _Prompt(model)
        self._decode = load(model, threads)
        self._thread = ThreadPoolExecutor(1)

    async def decode(
        self, samples: np.ndarray, prefix: Sequence[int], max_tokens: int
    ) -> list[int]:
        tail = [*self._prompt.tail, *prefix]
        job = DecodeJob("", 0, len(samples), self._prompt.head, tail, max_tokens)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._decode, samples, job)

    def text(self, tokens: Sequence[int]) -> str:
        return self._prompt.text(tokens)


class StockVllm:
    """Baseline (b): vLLM's own Qwen3-ASR class, all sessions batched by its scheduler."""

    def __init__(self, model: Path, threads: int) -> None:
        set_environment(threads)
        from vllm import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        self._prompt = _Prompt(model)
        self._numbers = itertools.count()
        self._llm = AsyncLLM.from_engine_args(
            AsyncEngineArgs(
                model=str(model),
                dtype="float32",
                max_model_len=4096,
                max_num_seqs=64,
                enforce_eager=True,
                skip_mm_profiling=True,
                limit_mm_per_prompt={"audio": 1},
                disable_log_stats=True,
                # In its favour; see stock_vllm.py.
                distributed_executor_backend="vllm.v1.executor.uniproc_executor.UniProcExecutor",
            )
        )

    async def decode(
        self, samples: np.ndarray, prefix: Sequence[int], max_tokens: int
    ) -> list[int]:
        from vllm import SamplingParams, TokensPrompt
        from vllm.sampling_params import RequestOutputKind

        prompt = TokensPrompt(
            prompt_token_ids=[*self._prompt.head, self._prompt.pad, *self._prompt.tail, *prefix],
            multi_modal_data={"audio": [(samples, 16_000)]},
        )
        sampling = SamplingParams(
            temperature=0.0,
            max_tokens=max_tokens,
            stop_token_ids=self._prompt.stops,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        tokens: list[int] = []
        async for output in self._llm.generate(prompt, sampling, str(next(self._numbers))):
            tokens = list(output.outputs[0].token_ids)
        return [token for token in tokens if token not in self._prompt.stops]

    def text(self, tokens: Sequence[int]) -> str:
        return self._prompt.text(tokens)


async def open_engine(name: str, model: Path, threads: int) -> LiveEngine:
    """Open engine `a` or `b` and warm it up with a first decode."""
    engine: LiveEngine = Transformers(model, threads) if name == "a" else StockVllm(model, threads)
    for seconds in (2, 8):
        await engine.decode(np.zeros(seconds * 16_000, np.float32), [], 8)
    return engine
