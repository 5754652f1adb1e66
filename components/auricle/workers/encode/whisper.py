"""Whisper's encoder.

A chunk is 30 s: audio, then silence. A complete chunk is encoded as by the published encoder. For a
shorter one only its positions are computed, which also attend to cached keys and values of the
silence after them. These depend only on the silence's level. That is an approximation, as cached
silence has not attended to the audio; benchmarks/RESULTS.md has its effect.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from auricle.checkpoints.files import ModelCheckpoint, audio_weights
from auricle.checkpoints.whole_chunks import (
    LOOKAHEAD,
    SILENT,
    WhisperChunks,
    WholeChunks,
    silence_floor,
)
from auricle.core.errors import CheckpointError
from auricle.workers.encode.encoder import AudioEncoder, MelBlock, MelWindow, do_nothing
from auricle.workers.encode.int8 import quantise

_CACHE_BYTES = 1 << 29  # of all cached silence
# Clamp floors of most speech. For another level, a pass takes the time of an additional chunk.
_USUAL_FLOORS = (-7.0, -6.5)


@dataclass(frozen=True)
class ScaledBlock:
    """A block's features as the encoder takes them, (frames, bins), and its clamp floor."""

    frames: torch.Tensor
    floor: float


@dataclass(frozen=True)
class KeysValues:
    """One layer's keys and values, (heads, positions, head width) each."""

    keys: torch.Tensor
    values: torch.Tensor

    @property
    def bytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes


@dataclass(frozen=True)
class EncodedSilence:
    embeddings: torch.Tensor
    layers: list[KeysValues]

    @property
    def bytes(self) -> int:
        return self.embeddings.nbytes + sum(layer.bytes for layer in self.layers)


class _Attention(nn.Module):
    """The projections of one layer, under the published names."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.q_proj, self.v_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width, bias=False)
        self.out_proj = nn.Linear(width, width)


class _Layer(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.self_attn = _Attention(width)
        self.self_attn_layer_norm = nn.LayerNorm(width)
        self.fc1, self.fc2 = nn.Linear(width, inner), nn.Linear(inner, width)
        self.final_layer_norm = nn.LayerNorm(width)


class _Modules(nn.Module):
    """The published weights. transformers' modules would take seconds and 130 MB to import."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        width = config["d_model"]
        self.conv1 = nn.Conv1d(config["num_mel_bins"], width, 3, padding=1)
        self.conv2 = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.embed_positions = nn.Embedding(config["max_source_positions"], width)
        layers = range(config["encoder_layers"])
        self.layers = nn.ModuleList(_Layer(width, config["encoder_ffn_dim"]) for _ in layers)
        self.layer_norm = nn.LayerNorm(width)


class WhisperChunkEncoder(AudioEncoder):
    def __init__(
        self,
        checkpoint: ModelCheckpoint,
        dtype: str,
        device: str,
        threads: int,
        *,
        int8: bool = False,
    ) -> None:
        """With `int8`, on a CPU, the linear layers compute with 8 bits."""
        super().__init__(checkpoint, dtype, device, threads)
        if not isinstance(checkpoint.geometry, WhisperChunks):
            raise CheckpointError(f"{checkpoint.path} has no Whisper encoder")
        self._geometry = checkpoint.geometry
        self._encoder: Any = _Modules(checkpoint.audio_config)
        self._load(self._encoder, audio_weights(checkpoint)[0], "audio encoder")
        self._one_by_one = int8
        if int8:
            quantise(self._encoder.layers)
        self._heads = int(checkpoint.audio_config["encoder_attention_heads"])
        self._positions = checkpoint.geometry.window_embeddings
        # By level, least recently used first.
        self._silence: OrderedDict[float, EncodedSilence] = OrderedDict()

    @torch.inference_mode()
    def prepare(self) -> None:
        for floor in _USUAL_FLOORS:
            self._silence_at(floor)

    def convolve(self, blocks: Sequence[MelBlock]) -> list[ScaledBlock]:
        return [ScaledBlock(self._features(block), block.floor) for block in blocks]

    @torch.inference_mode()
    def attend(self, windows: Sequence[Sequence[ScaledBlock]]) -> list[torch.Tensor]:
        """Encode chunks, given as the features of their blocks, in one pass.

        Chunks of silence are cached. Returns (positions_i, hidden_size) per chunk, on the
        encoder's device.
        """
        kept = [self._silence_at(w[0].floor) if self._silent(w) else None for w in windows]
        rest = [w for w, one in zip(windows, kept, strict=True) if one is None]
        computed = iter(self._computed(rest) if rest else ())
        return [next(computed) if one is None else one.embeddings for one in kept]

    @torch.inference_mode()
    def _computed(self, windows: Sequence[Sequence[ScaledBlock]]) -> list[torch.Tensor]:
        silence = [None if self._whole(w) else self._silence_at(w[0].floor) for w in windows]
        chunks = [self._embedded(blocks) for blocks in windows]
        if not self._one_by_one:
            return self._run(chunks, silence, self.between_layers)[0]
        # In a batch the last bits of attention differ, and with them values of 8 bits.
        return [
            self._run([chunk], [kept], self.between_layers)[0][0]
            for chunk, kept in zip(chunks, silence, strict=True)
        ]

    def _embedded(self, blocks: Sequence[ScaledBlock]) -> torch.Tensor:
        """Convolve a chunk and add positions; returns (positions, hidden_size)."""
        frames = torch.cat([block.frames for block in blocks])
        return embedded(self._encoder, self._geometry, frames)

    def _whole(self, blocks: Sequence[ScaledBlock]) -> bool:
        return sum(len(block.frames) for block in blocks) == self._geometry.window_frames

    def _silent(self, blocks: Sequence[ScaledBlock]) -> bool:
        """Whether a chunk is whole and all clamped to one level."""
        if not self._whole(blocks):
            return False
        level = blocks[0].frames[0, 0]
        return all(bool((block.frames == level).all()) for block in blocks)

    def _silence_at(self, floor: float) -> EncodedSilence:
        """Return a whole chunk of silence at the level of audio with the clamp floor `floor`."""
        floor = silence_floor(floor)
        if floor not in self._silence:
            self._keep(floor, self._encode_silence(floor))
        self._silence.move_to_end(floor)
        return self._silence[floor]

    def _keep(self, floor: float, new: EncodedSilence) -> None:
        while self._silence and (len(self._silence) + 1) * new.bytes > _CACHE_BYTES:
            self._silence.popitem(last=False)
        self._silence[floor] = new

    def _encode_silence(self, floor: float) -> EncodedSilence:
        shape = (self._geometry.window_frames, self._geometry.mel_bins)
        (block,) = self.convolve([MelBlock(np.full(shape, SILENT, np.float32), floor)])
        (embeddings,), layers = self._run([self._embedded([block])], [None])
        return EncodedSilence(embeddings, layers)

    def _run(
        self,
        chunks: list[torch.Tensor],
        silence: Sequence[EncodedSilence | None],
        between_layers: Callable[[], None] = do_nothing,
    ) -> tuple[list[torch.Tensor], list[KeysValues]]:
        """Run the layers over chunks; also returns the keys and values of the first, by layer.

        `between_layers` is as `AudioEncoder.between_layers`; cached silence is computed without it.
        All chunks share a layer's products and its attention, padded to the longest; each has the
        keys of a whole chunk.
        """
        lengths = [len(chunk) for chunk in chunks]
        hidden = torch.cat(chunks)
        first: list[KeysValues] = []
        for number, layer in enumerate(self._encoder.layers):
            between_layers()
            attention = layer.self_attn
            normed = layer.self_attn_layer_norm(hidden)
            queries, keys, values = (
                [self._split(part) for part in torch.split(project(normed), lengths)]
                for project in (attention.q_proj, attention.k_proj, attention.v_proj)
            )
            first.append(KeysValues(keys[0], values[0]))
            cached = [None if one is None else one.layers[number] for one in silence]
            whole = [
                _with_silence(KeysValues(k, v), kept)
                for k, v, kept in zip(keys, values, cached, strict=True)
            ]
            attended = functional.scaled_dot_product_attention(
                _padded(queries),
                torch.stack([one.keys for one in whole]),
                torch.stack([one.values for one in whole]),
            )
            rows = [
                one[:, :n].transpose(0, 1).flatten(1)
                for one, n in zip(attended, lengths, strict=True)
            ]
            hidden = hidden + attention.out_proj(torch.cat(rows))
            between_layers()
            hidden = hidden + layer.fc2(functional.gelu(layer.fc1(layer.final_layer_norm(hidden))))
        return list(torch.split(self._encoder.layer_norm(hidden), lengths)), first

    def _split(self, rows: torch.Tensor) -> torch.Tensor:
        """Return (heads, rows, width of a head) of (rows, width)."""
        return rows.view(len(rows), self._heads, -1).transpose(0, 1)

    def encode(self, windows: Sequence[MelWindow]) -> list[torch.Tensor]:
        """Encode windows without the silence cache; returns (positions_i, hidden_size) each."""
        return self._computed([self.convolve(self.blocks(window)) for window in windows])


def _padded(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Stack (heads, rows_i, width), padded with zeros after the rows."""
    longest = max(part.shape[1] for part in parts)
    return torch.stack([functional.pad(part, (0, 0, 0, longest - part.shape[1])) for part in parts])


def _with_silence(own: KeysValues, silence: KeysValues | None) -> KeysValues:
    """Append the silence after a chunk's positions to its keys and values."""
    if silence is None:
        return own
    rows = own.keys.shape[1]
    return KeysValues(
        torch.cat([own.keys, silence.keys[:, rows:]], 1),
        torch.cat([own.values, silence.values[:, rows:]], 1),
    )


def embedded(encoder: Any, geometry: WholeChunks, frames: torch.Tensor) -> torch.Tensor:
    """Convolve a chunk's frames, lookahead included, and add positions.

    Returns (positions, d_model).
    """
    positions = geometry.positions(len(frames))
    # A full chunk has no frames behind it.
    features = frames[: geometry.window_frames - LOOKAHEAD].T[None]
    hidden = functional.gelu(encoder.conv2(functional.gelu(encoder.conv1(features))))
    placed: torch.Tensor = hidden[0, :, :positions].T + encoder.embed_positions.weight[:positions]
    return placed
