"""SGLang's scheduler, driven pass by pass, with windows as items of a prompt.

Requests are handed to it directly, and results are taken from it directly: SGLang's processes for
tokens and texts are not started. So a request can be refused before it is queued, and its end is
known between two passes.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import torch
from sglang.srt.constrained.base_grammar_backend import BaseGrammarObject
from sglang.srt.managers.io_struct import AbortReq, TokenizedGenerateReqInput
from sglang.srt.managers.schedule_batch import (
    FINISH_ABORT,
    Modality,
    MultimodalDataItem,
    MultimodalInputs,
)
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.managers.scheduler_components.ipc_channels import SchedulerIpcChannels
from sglang.srt.managers.scheduler_components.output_sender import SenderWrapper
from sglang.srt.managers.scheduler_components.output_streamer import SchedulerOutputStreamer
from sglang.srt.sampling.sampling_params import SamplingParams
from sglang.srt.utils import DynamicGradMode

from auricle.embeddings.slab import Slab
from auricle.workers.pd.engine import Decoded, GenerateRequest, Timings
from auricle.workers.pd.sglang.messages import Ended
from auricle.workers.pd.sglang.model import REF

_IDENTITY_BYTES = 32


@dataclass
class Job:
    """A request in progress; times are monotonic seconds, 0.0 before the moment."""

    number: int
    request: GenerateRequest
    queued: float = field(default_factory=time.monotonic)
    scheduled: float = 0.0
    first_token: float = 0.0
    missing: str | None = None
    wrong: str = ""


class Streamer(SchedulerOutputStreamer):
    """Passes finished requests to `PassScheduler` instead of sending tokens."""

    __slots__ = ("finished",)

    def stream_output(
        self, reqs: Sequence[Any], return_logprob: bool, skip_req: Any = None
    ) -> None:
        for req in reqs:
            if req is not skip_req and req.finished() and not req.finished_output:
                req.finished_output = True
                self.finished(req)


class PassScheduler(Scheduler):
    """Runs requests with windows; `ended` is called with the end of each, between passes."""

    running_batch: Any
    last_batch: Any

    def __init__(
        self,
        server_args: Any,
        port_args: Any,
        audio_token: int | None,
        slab: Slab | None,
        ended: Callable[[Ended], None],
    ) -> None:
        self._jobs: dict[str, Job] = {}
        self._ended = ended
        self._audio_token = audio_token
        super().__init__(server_args, port_args)
        self.output_streamer.finished = self._finished
        model = self.tp_worker.model_runner.model
        self._spoilt: list[tuple[int, str, str]] = []
        if slab is not None:
            model.slab, self._spoilt = slab, model.spoilt

    # ── what SGLang calls ───────────────────────────────────────────────────

    def init_ipc_channels(self, port_args: Any) -> None:
        """Open none."""
        silent = SenderWrapper(None)
        self.ipc_channels = SchedulerIpcChannels(
            recv_from_tokenizer=None,
            recv_from_rpc=None,
            send_to_tokenizer=silent,
            send_to_detokenizer=silent,
            send_metrics_from_scheduler=None,
        )
        self.load_snapshot_writer = self.recv_from_tokenizer = None

    def get_output_streamer_class(self) -> type[Any]:
        return Streamer

    def _create_generation_req(self, recv_req: Any, *arguments: Any, **named: Any) -> Any:
        req = super()._create_generation_req(recv_req, *arguments, **named)
        if allowed := self._jobs[req.rid].request.allowed:
            req.grammar = AllowedTokens(allowed)
        return req

    def send_abort_output(self, abort_req: Any, req: Any) -> None:
        """Report the end of a request that SGLang ended before its first pass."""
        job = self._jobs.pop(req.rid)
        reason = (abort_req.finished_reason or {}).get("message", "")
        self._ended(Ended(job.number, wrong=reason or "it was cancelled"))

    def process_batch_result(self, batch: Any, result: Any) -> None:
        """End the requests whose slots lost their windows, without keeping their KV."""
        for index, key, wrong in self._spoilt:
            req = batch.reqs[index]
            self._jobs[req.rid].missing, self._jobs[req.rid].wrong = key, wrong
            req.skip_radix_cache_insert = True
            req.to_finish = FINISH_ABORT(wrong)
        self._spoilt.clear()
        super().process_batch_result(batch, result)

    # ── what its process calls ──────────────────────────────────────────────

    @property
    def kv_tokens(self) -> int:
        return int(self.max_total_num_tokens)

    @property
    def kv_usage(self) -> float:
        """The share of the KV cache of requests in progress."""
        free = self.token_to_kv_pool_allocator.available_size() + self.tree_cache.evictable_size()
        return float(1.0 - free / self.kv_tokens)

    @property
    def idle(self) -> bool:
        return not self._jobs

    def submit(self, number: int, request: GenerateRequest, stop_tokens: frozenset[int]) -> None:
        """Queue a request whose slots were verified; `stop_tokens` are all of it."""
        job = Job(number, request)
        rid = _rid(number)
        self._jobs[rid] = job
        inputs, tokens = self._prompt(request)
        sampling = SamplingParams(
            temperature=0.0, max_new_tokens=request.max_tokens, stop_token_ids=set(stop_tokens)
        )
        sampling.normalize(None)
        self.handle_generate_request(
            TokenizedGenerateReqInput(
                rid=rid,
                input_text="",
                input_ids=array("q", tokens),
                input_embeds=None,
                mm_inputs=inputs,
                token_type_ids=None,
                sampling_params=sampling,
                return_logprob=request.logprobs,
                logprob_start_len=-1,
                top_logprobs_num=0,
                token_ids_logprob=None,
                stream=False,
                priority=request.priority,
                cache_salt=request.tenant,
            )
        )

    def _prompt(self, request: GenerateRequest) -> tuple[Any, list[int]]:
        """Return the items of the windows, and all tokens with placeholders.

        A text has no items. A window's placeholders are made of a hash of its whole key and the
        tenant, so prefixes of the same windows are equal, and no others are.
        """
        tokens = list(request.head)
        padded = list(request.head)
        items = []
        for ref in request.windows:
            assert self._audio_token is not None  # a text model gets no windows
            item = MultimodalDataItem(
                modality=Modality.AUDIO,
                offsets=[(len(tokens), len(tokens) + ref.length - 1)],
                model_specific_data={REF: ref},
            )
            name = f"{len(request.tenant)} {request.tenant} {ref.key}".encode()
            item.set_identity(blake2b(name, digest_size=_IDENTITY_BYTES).digest())
            items.append(item)
            tokens += [self._audio_token] * ref.length
            padded += item.padding_sequence(ref.length)
        tokens += request.tail
        padded += request.tail
        if not items:
            return None, tokens
        return MultimodalInputs(mm_items=items, padded_input_ids=padded), tokens

    def cancel(self, number: int) -> None:
        """End a request: at once if it waits, otherwise with its next pass."""
        if (rid := _rid(number)) in self._jobs:
            self.abort_request(AbortReq(rid=rid))

    @DynamicGradMode()  # type: ignore[untyped-decorator]
    def step(self) -> float:
        """Run one pass if there is work; returns the seconds of a decode step, otherwise 0.0."""
        plan = self.get_next_batch_to_run(
            running_batch=self.running_batch, last_batch=self.last_batch
        )
        self.running_batch = plan.running_batch
        self.last_batch = batch = self.cur_batch_for_debug = plan.batch_to_run
        if not batch:
            return 0.0
        began = time.monotonic()
        jobs = [self._jobs[req.rid] for req in batch.reqs]
        for job in jobs:
            job.scheduled = job.scheduled or began
        result = self.run_batch(batch)
        ended = time.monotonic()
        for job in jobs:
            job.first_token = job.first_token or ended
        decodes = batch.forward_mode.is_decode()
        self.process_batch_result(batch, result)
        return time.monotonic() - began if decodes else 0.0

    def _finished(self, req: Any) -> None:
        """Report the end of a request that had passes."""
        job = self._jobs.pop(req.rid)
        reason = req.finished_reason.to_json()
        if reason["type"] == "abort":
            self._ended(
                Ended(job.number, missing=job.missing, wrong=job.wrong or reason["message"])
            )
            return
        tokens = tuple(req.output_ids)
        scores = req.logprob.output_token_logprobs_val if job.request.logprobs else ()
        decoded = Decoded(
            tokens=tokens,
            finish=reason["type"],
            prompt_tokens=len(req.origin_input_ids),
            cached_tokens=req.cached_tokens,
            steps=len(tokens),
            draft_tokens=0,
            accepted_tokens=0,
            timings=Timings(job.queued, job.scheduled, job.first_token, time.monotonic()),
            logprobs=tuple(map(float, scores)),
        )
        self._ended(Ended(job.number, decoded))


class AllowedTokens(BaseGrammarObject):
    """Limits an output to some tokens, by SGLang's interface for grammars."""

    def __init__(self, allowed: Sequence[int]) -> None:
        super().__init__()
        self._allowed = torch.tensor(list(allowed))

    def accept_token(self, token: int) -> None:
        """Do nothing: the same tokens are allowed everywhere."""

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> torch.Tensor:
        return torch.zeros((batch_size, vocab_size), dtype=torch.bool)

    def fill_vocab_mask(self, vocab_mask: torch.Tensor, idx: int) -> None:
        vocab_mask[idx] = True
        vocab_mask[idx, self._allowed] = False

    @staticmethod
    def move_vocab_mask(vocab_mask: torch.Tensor, device: Any) -> torch.Tensor:
        return vocab_mask.to(device)

    @staticmethod
    def apply_vocab_mask(logits: torch.Tensor, vocab_mask: torch.Tensor) -> None:
        logits[:, : vocab_mask.shape[1]].masked_fill_(vocab_mask, -torch.inf)


def _rid(number: int) -> str:
    """Return an id of fixed length, as SGLang aborts all requests whose ids begin with one."""
    return f"{number:020d}"
