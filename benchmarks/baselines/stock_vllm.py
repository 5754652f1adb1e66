"""Baseline (b): stock vLLM with its own Qwen3-ASR class, all audio so far at every chunk.

    python -m benchmarks.baselines.stock_vllm --model build/checkpoints/60m --threads 1

The caches have their defaults: the prefix cache finds the prompt's head, but not the audio,
whose content is new at every chunk.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np

from benchmarks.baselines.protocol import Decode, DecodeJob, serve

STOPS = ("<|im_end|>", "<|endoftext|>")


def load(model: Path, threads: int, max_model_len: int) -> Decode:
    """Load vLLM's own engine, offline, in float32."""
    set_environment(threads)
    from transformers import AutoTokenizer
    from vllm import LLM, SamplingParams, TokensPrompt

    llm = LLM(
        str(model),
        dtype="float32",
        max_model_len=max_model_len,
        max_num_seqs=4,
        enforce_eager=True,
        skip_mm_profiling=True,
        limit_mm_per_prompt={"audio": 1},
        disable_log_stats=True,
        # In its favour: by default vLLM runs one more process on a CPU, and both processes spin
        # on the queue between them for a second after every step.
        distributed_executor_backend="vllm.v1.executor.uniproc_executor.UniProcExecutor",
    )
    tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True)
    stops = [tokenizer.convert_tokens_to_ids(token) for token in STOPS]
    pad = tokenizer.convert_tokens_to_ids("<|audio_pad|>")

    def decode(samples: np.ndarray, job: DecodeJob) -> list[int]:
        prompt = TokensPrompt(
            prompt_token_ids=[*job.head, pad, *job.tail],
            multi_modal_data={"audio": [(samples, 16_000)]},
        )
        sampling = SamplingParams(
            temperature=0.0, max_tokens=job.max_tokens, stop_token_ids=stops, detokenize=False
        )
        (output,) = llm.generate(prompt, sampling, use_tqdm=False)
        return [t for t in output.outputs[0].token_ids if t not in stops]

    return decode


def set_environment(threads: int) -> None:
    """Select the CPU, no hub and the number of threads; call it before vLLM is imported."""
    os.environ |= {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_CPU_KVCACHE_SPACE": "2",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": str(threads),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--max-model-len", type=int, default=8192)
    arguments = parser.parse_args()
    serve(lambda: load(arguments.model, arguments.threads, arguments.max_model_len))
