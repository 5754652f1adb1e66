"""Text decoders as SGLang models whose audio arrives as embeddings in the landing slab.

Each is SGLang's decoder with the mixin `WindowsFromSlab`, and reads a checkpoint of any
architecture with that decoder. The config that it gets is the text decoder's, so SGLang sees a text
model: without an audio tower, and without M-RoPE, which equals plain RoPE here. SGLang's own path
for audio is not used. It would keep embeddings in a cache by 64 bits of a hash, for all tenants.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from sglang.srt.models.qwen2 import Qwen2ForCausalLM
from sglang.srt.models.qwen3 import Qwen3ForCausalLM
from sglang.srt.models.qwen3_moe import Qwen3MoeForCausalLM

from auricle.checkpoints.files import open_checkpoint
from auricle.checkpoints.text_model import text_weights
from auricle.embeddings.slab import Slab
from auricle.embeddings.slots import SlotRef

log = logging.getLogger(__name__)

CHECKPOINT = "auricle_checkpoint"  # the config's name for the folder with the weights
REF = "ref"  # an item's name for its SlotRef
Piece = tuple[int, SlotRef, int, int]  # first row in the pass, window, its first and last row


class WindowsFromSlab:
    """A mixin for SGLang's text decoders whose audio arrives as embeddings.

    `slab` must be set before the first pass. After a pass, `spoilt` has each request that read a
    slot without its window, as (index in the batch, key, reason).
    """

    slab: Slab
    config: Any
    model: Any

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.spoilt: list[tuple[int, str, str]] = []

    def forward(
        self, input_ids: torch.Tensor, positions: torch.Tensor, forward_batch: Any, **named: Any
    ) -> Any:
        """Run a pass. The placeholders of windows are values beyond the vocabulary."""
        self.spoilt.clear()
        if not forward_batch.forward_mode.is_decode():
            ids = input_ids.clamp(max=self.config.vocab_size - 1)
            embeddings = self.model.embed_tokens(ids)
            if forward_batch.mm_inputs:  # a pass of SGLang's own, such as a warm-up, has none
                self._insert(embeddings, forward_batch)
            named["input_embeds"] = embeddings
        return super().forward(input_ids, positions, forward_batch, **named)  # type: ignore[misc]

    def _insert(self, embeddings: torch.Tensor, batch: Any) -> None:
        """Copy the windows of a pass from their slots to their rows of `embeddings`."""
        pieces: list[Piece] = []
        first = 0
        parts = zip(
            batch.mm_inputs, batch.extend_prefix_lens_cpu, batch.extend_seq_lens_cpu, strict=True
        )
        for index, (inputs, cached, length) in enumerate(parts):
            for item in () if inputs is None else inputs.mm_items:
                begin, end = item.offsets[0][0], item.offsets[0][1] + 1
                low, high = max(begin, cached), min(end, cached + length)
                if low < high:
                    ref: SlotRef = item.model_specific_data[REF]
                    wrong = self.slab.mismatch(ref.slot, ref.key, ref.generation, ref.length)
                    if wrong is None:
                        pieces.append((first + low - cached, ref, low - begin, high - begin))
                    else:
                        self.spoilt.append((index, ref.key, wrong))
            first += length
        if not pieces:
            return
        gathered = self.slab.gather([(ref.slot, ref.length) for _, ref, _, _ in pieces])
        self.slab.synchronize()  # before the request can end, which ends the pins
        for (at, ref, low, high), window in zip(pieces, gathered, strict=True):
            rows = torch.as_tensor(window).to(embeddings.device).view(embeddings.dtype)
            embeddings[at : at + high - low] = rows.view(ref.length, -1)[low:high]

    def load_weights(self, weights: Iterator[tuple[str, torch.Tensor]]) -> None:
        """Load the checkpoint's text decoder; SGLang's own `weights` are not read."""
        text, head = text_weights(open_checkpoint(Path(getattr(self.config, CHECKPOINT))))
        named = {f"model.{name}": tensor for name, tensor in text.items()}
        named |= {f"lm_head.{name}": tensor for name, tensor in head.items()}
        super().load_weights(named.items())  # type: ignore[misc]


class SglangQwen3Decoder(WindowsFromSlab, Qwen3ForCausalLM):
    """The dense text decoder of Qwen3, as in Qwen3-ASR."""


class SglangQwen3MoeDecoder(WindowsFromSlab, Qwen3MoeForCausalLM):
    """Qwen3's decoder with a mixture of experts, as in the thinker of Qwen3-Omni."""


class SglangQwen2Decoder(WindowsFromSlab, Qwen2ForCausalLM):
    """Qwen2's decoder, as in Qwen2-Audio."""


# SGLang's registry reads it. Its own classes are for text models: for others it imports all models.
EntryClass = [
    *(SglangQwen3Decoder, SglangQwen3MoeDecoder, SglangQwen2Decoder),
    *(Qwen3ForCausalLM, Qwen3MoeForCausalLM, Qwen2ForCausalLM),
]
