"""Qwen3-ASR's encoder with transformers' modules: windows that attend only to themselves."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn import functional
from transformers.models.qwen3_asr.configuration_qwen3_asr import Qwen3ASRConfig
from transformers.models.qwen3_asr.modeling_qwen3_asr import (
    Qwen3ASREncoder,
    Qwen3ASRMultiModalProjector,
)

from auricle.audio.constants import BINS
from auricle.checkpoints.files import ModelCheckpoint
from auricle.workers.encode.attention import Attention, Windows, attention_for, to_device, use
from auricle.workers.encode.cost import padded_lengths
from auricle.workers.encode.encoder import AudioEncoder, MelBlock

# Keys of the original config that transformers' encoder config lacks.
_DROPPED_KEYS = frozenset(
    {"model_type", "architectures", "conv_chunksize", "max_source_positions", "num_hidden_layers"}
)


class WindowedEncoder(AudioEncoder):
    def __init__(
        self,
        checkpoint: ModelCheckpoint,
        dtype: str,
        device: str,
        threads: int,
        attention: Attention | None = None,
    ) -> None:
        """`attention` is by default the fastest on the device."""
        super().__init__(checkpoint, dtype, device, threads)
        known = Qwen3ASRConfig().audio_config.to_dict().keys()
        audio = {
            k: v
            for k, v in checkpoint.audio_config.items()
            if k in known and k not in _DROPPED_KEYS
        }
        config = Qwen3ASRConfig(audio_config=audio, text_config=dict(checkpoint.text_config))
        config.audio_config._attn_implementation = "sdpa"  # transformers' own choice
        self._attention = attention or attention_for(self._device, self._dtype)
        self._encoder = Qwen3ASREncoder(config.audio_config)
        self._projector = Qwen3ASRMultiModalProjector(config)
        self._load_audio(checkpoint, self._encoder, self._projector)
        use(self._attention, self._encoder)
        encoder = self._encoder
        self._convs = (encoder.conv2d1, encoder.conv2d2, encoder.conv2d3)
        for conv in self._convs:
            # Saves a third of the time of one block on a CPU; GPUs prefer it in half precision.
            conv.to(memory_format=torch.channels_last)
        self._embeddings = checkpoint.geometry.embeddings

    @torch.inference_mode()
    def convolve(self, blocks: Sequence[MelBlock]) -> list[torch.Tensor]:
        """Run the conv stack and add positions; returns (length_i, d_model) per block.

        Whole blocks take one pass and all shorter ones, padded with zeros, another.
        """
        padded = padded_lengths([len(block.frames) for block in blocks], self._block_frames)
        outputs: dict[int, torch.Tensor] = {}
        for length in set(padded):
            rows = [row for row, own in enumerate(padded) if own == length]
            hidden = self._convolve([blocks[row] for row in rows], length)
            slices = [
                one[: self._embeddings(len(blocks[row].frames))]
                for row, one in zip(rows, hidden, strict=True)
            ]
            # Copied, because a cached slice would keep the memory of the batch alive.
            copies = [torch.empty_like(one) for one in slices]
            torch._foreach_copy_(copies, slices)  # one kernel for all of them
            outputs |= zip(rows, copies, strict=True)
        return [outputs[row] for row in range(len(blocks))]

    def _convolve(self, blocks: Sequence[MelBlock], length: int) -> torch.Tensor:
        """Convolve blocks padded to `length` frames; returns (blocks, rows, d_model)."""
        on_gpu = self._device.type == "cuda"
        return self._stack(to_device(staged(blocks, len(blocks), length, on_gpu), self._device))

    def _stack(self, blocks: torch.Tensor) -> torch.Tensor:
        """Convolve `staged` blocks on the device, without synchronization."""
        encoder = self._encoder
        hidden = _features(blocks).to(dtype=self._dtype, memory_format=torch.channels_last)
        for conv in self._convs:
            hidden = functional.gelu(conv(hidden))
        count, channels, bins, steps = hidden.shape
        hidden = encoder.conv_out(hidden.permute(0, 3, 1, 2).reshape(count, steps, channels * bins))
        positions = encoder.positional_embedding.positional_embedding[:steps]
        placed: torch.Tensor = hidden + positions.to(hidden.dtype)
        return placed

    @torch.inference_mode()
    def attend(self, windows: Sequence[Sequence[torch.Tensor]]) -> list[torch.Tensor]:
        """Run transformer and projector over windows, given their blocks' conv outputs.

        All windows take one pass, concatenated, and each attends only to itself (attention.py).
        Returns (length_i, hidden_size) per window, on the encoder's device.
        """
        lengths = [sum(len(block) for block in blocks) for blocks in windows]
        embeddings = self._attended([block for blocks in windows for block in blocks], lengths)
        return list(torch.split(embeddings, lengths))

    def _attended(self, blocks: Sequence[torch.Tensor], lengths: Sequence[int]) -> torch.Tensor:
        """Return the embeddings of windows of these lengths, concatenated."""
        where = Windows.of(lengths, self._attention, self._device)
        return self._transform(torch.cat(list(blocks)), where)

    def _transform(self, hidden: torch.Tensor, where: Windows) -> torch.Tensor:
        """Run transformer and projector over rows on the device, without synchronization."""
        arguments = where.arguments()
        for layer in self._encoder.layers:
            hidden = layer(hidden, where.ends, **arguments)[0]
        embeddings: torch.Tensor = self._projector(self._encoder.ln_post(hidden))
        return embeddings


def staged(
    blocks: Sequence[MelBlock], count: int, frames: int, pinned: bool = False
) -> torch.Tensor:
    """Return blocks on the host for one copy to the device, float32 (count, 1 + frames, 128).

    Each begins with its floor and its number of frames; further blocks have none.
    """
    memory = torch.empty(count, 1 + frames, BINS, pin_memory=pinned)
    memory[:, 0].zero_()
    for own, block in zip(memory.numpy(), blocks, strict=False):
        length = len(block.frames)
        own[0, 0], own[0, 1] = block.floor, length
        own[1 : 1 + length] = block.frames
    return memory


def _features(blocks: torch.Tensor) -> torch.Tensor:
    """Return the normalised features of `staged` blocks, (blocks, 1, 128, frames), zero-padded."""
    floor, length = blocks[:, 0, 0, None, None], blocks[:, 0, 1, None, None]
    values = blocks[:, 1:]
    real = torch.arange(values.shape[1], device=blocks.device)[:, None] < length
    scaled = (torch.maximum(values, floor) + 4.0) / 4.0  # as `normalise`
    return torch.where(real, scaled, 0.0).transpose(1, 2).unsqueeze(1)
