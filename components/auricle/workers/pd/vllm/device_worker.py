"""vLLM's worker, which runs the model on a device, with our replacements."""

from __future__ import annotations

import logging
from typing import Any

import torch
from vllm.platforms import current_platform
from vllm.utils.torch_utils import PIN_MEMORY
from vllm.v1.sample import sampler
from vllm.v1.sample.logits_processor import LogitBiasLogitsProcessor

from auricle.process.engine_process import lock_down_ports
from auricle.workers.pd.vllm.verifier import GreedyVerifier

log = logging.getLogger(__name__)

# Each can be imported on its platform only.
if current_platform.is_cpu():
    from vllm.v1.worker.cpu_worker import CPUWorker as PlatformWorker
else:
    from vllm.v1.worker.gpu_worker import Worker as PlatformWorker


class DeviceWorker(PlatformWorker):
    """The platform's worker; vLLM has no other hook for these replacements."""

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        super().load_model(*args, **kwargs)
        runner = self.model_runner
        if self.vllm_config.speculative_config is not None:
            runner.rejection_sampler = GreedyVerifier(runner.rejection_sampler)
            # With drafts vLLM has no such processor and would ignore a request's `logit_bias`.
            processors = runner.input_batch.logitsprocs.non_argmax_invariant
            processors.append(LogitBiasLogitsProcessor(self.vllm_config, runner.device, PIN_MEMORY))
        # vLLM compiles it with the first log probabilities, which needs a compiler and delays all
        # requests for a minute.
        sampler.batched_count_greater_than = _ranks
        if self.vllm_config.ec_transfer_config is None:
            lock_down_ports()  # the connector does it, except for a text model

    def compile_or_warm_up_model(self) -> Any:
        """Also log what vLLM has resolved: it may choose other graphs than those configured."""
        times = super().compile_or_warm_up_model()
        log.info("%s", described(self.model_runner.attn_groups, self.vllm_config))
        return times


def described(attention: Any, config: Any) -> str:
    """Return, for a log line, the backends of vLLM's groups of layers, and the graphs of passes."""
    names = dict.fromkeys(one.backend.get_name() for groups in attention for one in groups)
    passes = config.compilation_config
    graphs = passes.cudagraph_mode.name
    if sizes := passes.cudagraph_capture_sizes:
        graphs += f" up to {max(sizes)} tokens"
    return f"attention by {', '.join(names) or 'none'}; CUDA graphs: {graphs}"


def _ranks(logprobs: torch.Tensor, taken: torch.Tensor) -> torch.Tensor:
    """Return the number of tokens in each row at least as likely as the selected one."""
    return (logprobs >= taken).sum(-1)
