"""Stock vLLM's Whisper, which encodes for itself: jobs from standard input, tokens to stdout."""

import json
import os
import sys

os.environ |= {
    "VLLM_PLUGINS": "",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
}
_RATE = 16_000
_POSITIONS = 1_500
_NEVER = -100.0


def main() -> None:
    """Answer until standard input ends; output of libraries goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    import numpy as np
    from vllm import LLM, SamplingParams

    llm = LLM(
        sys.argv[1],
        dtype="float32",
        enforce_eager=True,
        max_num_seqs=1,
        max_model_len=448,
        max_num_batched_tokens=2 * _POSITIONS,
        limit_mm_per_prompt={"audio": 1},
        disable_log_stats=True,
        distributed_executor_backend="vllm.v1.executor.uniproc_executor.UniProcExecutor",
    )
    print(json.dumps({"ready": True}), file=answers)
    for line in sys.stdin:
        job = json.loads(line)
        samples = np.fromfile(job["audio"], "<i2").astype(np.float32) / np.float32(32768)
        prompt = {
            "encoder_prompt": {"prompt": "", "multi_modal_data": {"audio": (samples, _RATE)}},
            "decoder_prompt": {"prompt_token_ids": job["prompt"]},
        }
        # vLLM does not read the checkpoint's list of tokens that must not be generated.
        sampling = SamplingParams(
            temperature=0.0,
            max_tokens=job["max_tokens"],
            detokenize=False,
            logit_bias=dict.fromkeys(job["suppressed"], _NEVER),
        )
        (output,) = llm.generate([prompt], sampling, use_tqdm=False)
        print(json.dumps({"tokens": list(output.outputs[0].token_ids)}), file=answers)


if __name__ == "__main__":
    main()
