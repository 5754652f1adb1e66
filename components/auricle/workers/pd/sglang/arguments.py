"""Makes SGLang's scheduler for a checkpoint: its configuration by auricle's settings."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch.distributed
from setproctitle import setproctitle
from sglang.srt.distributed.parallel_state import get_default_distributed_backend
from sglang.srt.runtime_context import SpawnRanks, publish
from sglang.srt.server_args import PortArgs, ServerArgs

from auricle.checkpoints.files import ModelCheckpoint, open_checkpoint
from auricle.checkpoints.text_model import plain_rope_config
from auricle.embeddings.slab import Slab
from auricle.workers.pd.sglang.messages import DECODERS, Ended, SglangOptions
from auricle.workers.pd.sglang.model import CHECKPOINT
from auricle.workers.pd.sglang.scheduler import PassScheduler

# SGLang keeps a few tokens of its context and of its KV cache free.
_RESERVED = 8
_MODEL_TYPES = {
    "Qwen3ForCausalLM": "qwen3",
    "Qwen3MoeForCausalLM": "qwen3_moe",
    "Qwen2ForCausalLM": "qwen2",
}


def new_scheduler(
    options: SglangOptions, slab: Slab | None, ended: Callable[[Ended], None]
) -> PassScheduler:
    """Load the model into a scheduler that reads audio from `slab`; see `PassScheduler`.

    Without a slab it is a text model, whose folder SGLang reads itself.
    """
    setproctitle("SGLang::Engine")  # operators find it by this name
    with tempfile.TemporaryDirectory(prefix="auricle-sglang-") as folder:
        path = options.model
        if slab is not None:
            path = folder
            config = text_config(open_checkpoint(Path(options.model)))
            (Path(folder) / "config.json").write_text(json.dumps(config))
        arguments = ServerArgs(model_path=path, **server_arguments(options))
        arguments.resolve_once()
        publish(arguments, role="scheduler", ranks=SpawnRanks(world_rank=0, gpu_id=0))
        _join_alone(options.device)
        return PassScheduler(arguments, _ports(), options.audio_token, slab, ended)


def text_config(checkpoint: ModelCheckpoint) -> dict[str, Any]:
    """Return the config of a checkpoint's text decoder, as of a text model.

    It has no end tokens: each request has its own.
    """
    decoder = checkpoint.architecture.decoder
    return plain_rope_config(checkpoint) | {
        "architectures": [DECODERS[decoder]],
        "model_type": _MODEL_TYPES[decoder],
        "eos_token_id": None,
        CHECKPOINT: str(checkpoint.path.resolve()),
    }


def server_arguments(options: SglangOptions) -> dict[str, Any]:
    """Return SGLang's arguments, but for the model's path."""
    arguments: dict[str, Any] = {
        "device": options.device.partition(":")[0],
        "dtype": options.dtype,
        "context_length": options.max_model_len + _RESERVED,
        "max_running_requests": options.max_requests,
        "skip_tokenizer_init": True,
        # A prompt is prefilled in one pass, so its slots are read in one pass.
        "chunked_prefill_size": -1,
        "disable_overlap_schedule": True,
        "enable_priority_scheduling": True,
        "schedule_low_priority_values_first": True,
        "log_level": "error",
    }
    if options.kv_tokens is not None:
        arguments["max_total_tokens"] = options.kv_tokens + _RESERVED
    if options.device == "cpu":
        arguments |= {
            "attention_backend": "torch_native",
            "sampling_backend": "pytorch",
            "disable_cuda_graph": True,
            # Only checked on a CPU: the size of the KV cache is set above.
            "mem_fraction_static": 0.1,
        }
    else:
        arguments["mem_fraction_static"] = options.memory_share
    return arguments


def _join_alone(device: str) -> None:
    """Make the process group of one process, whose own store would listen on every address."""
    torch.distributed.init_process_group(
        get_default_distributed_backend(device.partition(":")[0]),
        store=torch.distributed.HashStore(),  # type: ignore[attr-defined]
        rank=0,
        world_size=1,
    )


def _ports() -> PortArgs:
    """Return no ports: the process group exists, and our scheduler opens no other channel."""
    return PortArgs(
        tokenizer_ipc_name="",
        scheduler_input_ipc_name="",
        detokenizer_ipc_name="",
        nccl_port=0,
        rpc_ipc_name="",
        metrics_ipc_name="",
        tokenizer_worker_ipc_name=None,
        decoupled_spec_ipc_config=None,
    )
