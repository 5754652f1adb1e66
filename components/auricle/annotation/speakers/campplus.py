"""CAM++ speaker embeddings: "CAM++: A Fast and Efficient Network for Speaker Verification Using
Context-Aware Masking" (arXiv 2303.00332).

The forward pass runs in torch functions over the published weights. A batch norm after a
convolution is folded into it; one before it stays a scale and a shift.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers.audio_utils import mel_filter_bank

from auricle.audio.constants import SAMPLE_RATE
from auricle.core.errors import CheckpointError

_EPSILON = 1e-5  # of the batch norms
_MASK_FRAMES = 100  # frames that share a mask context, in addition to the window's
_DILATIONS = (1, 2, 2)  # of the dense blocks
_Affine = tuple[Tensor, Tensor]


class CamPlusPlus:
    """The network with its weights on one device. Not thread-safe; call it from one thread."""

    def __init__(self, weights: Mapping[str, Tensor], device: torch.device) -> None:
        """`weights` have the published names. Raises CheckpointError if one is missing."""
        self._weights, self._device = weights, device
        try:
            self._head = self._read_head()
            self._first = self._folded("xvector.tdnn.linear", "xvector.tdnn.nonlinear.batchnorm")
            self._blocks = [self._read_block(number) for number in (1, 2, 3)]
            self._last = self._norm("xvector.out_nonlinear.batchnorm")
            self._dense = self._folded("xvector.dense.linear", "xvector.dense.nonlinear.batchnorm")
        except KeyError as error:
            raise CheckpointError(f"the speaker model's weights lack {error}") from None
        self.width = len(self._dense[1])

    @torch.inference_mode()
    def embed(self, frames: Tensor) -> Tensor:
        """Return vectors of length 1, (n, width), for windows of frames, (n, frames, 80)."""
        x = self._image(frames.to(self._device).transpose(1, 2).unsqueeze(1))
        x = functional.relu(functional.conv1d(x, *self._first, stride=2, padding=2))
        x = x.transpose(0, 1)  # channels first, so that a layer of all windows is one product
        for block, dilation in zip(self._blocks, _DILATIONS, strict=True):
            x = block(x, dilation)
        x = _activated(x, self._last)
        pooled = torch.cat([x.mean(-1), x.std(-1)])
        weight, bias = self._dense
        return functional.normalize(functional.linear(pooled.T, weight.squeeze(-1), bias), dim=1)

    def _image(self, x: Tensor) -> Tensor:
        """Run the 2D convolutions; returns (n, channels, frames)."""
        first, blocks, last = self._head
        x = functional.relu(functional.conv2d(x, *first, padding=1))
        for one, two, shortcut, stride in blocks:
            short = x if shortcut is None else functional.conv2d(x, *shortcut, stride=(stride, 1))
            x = functional.relu(functional.conv2d(x, *one, stride=(stride, 1), padding=1))
            x = functional.relu(functional.conv2d(x, *two, padding=1) + short)
        return functional.relu(functional.conv2d(x, *last, stride=(2, 1), padding=1)).flatten(1, 2)

    # ── reading the weights ─────────────────────────────────────────────────

    def _tensor(self, name: str) -> Tensor:
        return self._weights[name].to(self._device, torch.float32)

    def _norm(self, name: str) -> _Affine:
        """Return a batch norm as scale and shift, (channels, 1) each."""
        mean, variance = self._tensor(f"{name}.running_mean"), self._tensor(f"{name}.running_var")
        scale = (variance + _EPSILON).rsqrt()
        if f"{name}.weight" in self._weights:
            scale = scale * self._tensor(f"{name}.weight")
        shift = -mean * scale
        if f"{name}.bias" in self._weights:
            shift = shift + self._tensor(f"{name}.bias")
        return scale.unsqueeze(1), shift.unsqueeze(1)

    def _folded(self, convolution: str, norm: str) -> _Affine:
        """Return weight and bias of a convolution with the batch norm that follows it."""
        weight, (scale, shift) = self._tensor(f"{convolution}.weight"), self._norm(norm)
        return weight * scale.view(-1, *[1] * (weight.dim() - 1)), shift.squeeze(1)

    def _read_head(
        self,
    ) -> tuple[_Affine, list[tuple[_Affine, _Affine, _Affine | None, int]], _Affine]:
        blocks = []
        for layer in ("head.layer1", "head.layer2"):
            for number, stride in enumerate((2, 1)):
                name = f"{layer}.{number}"
                one = self._folded(f"{name}.conv1", f"{name}.bn1")
                two = self._folded(f"{name}.conv2", f"{name}.bn2")
                shortcut = None
                if stride == 2:
                    shortcut = self._folded(f"{name}.shortcut.0", f"{name}.shortcut.1")
                blocks.append((one, two, shortcut, stride))
        first = self._folded("head.conv1", "head.bn1")
        if first[0].shape[1:] != (1, 3, 3) or self._tensor("head.conv2.weight").dim() != 4:
            raise CheckpointError("the speaker model's weights are not a CAM++ model's")
        return first, blocks, self._folded("head.conv2", "head.bn2")

    def _read_block(self, number: int) -> _DenseBlock:
        name, layers = f"xvector.block{number}", []
        for layer in count(1):
            at = f"{name}.tdnnd{layer}"
            if f"{at}.linear1.weight" not in self._weights:
                break
            mask = [self._tensor(f"{at}.cam_layer.{p}") for p in _MASK_PARTS]
            layers.append(
                _DenseLayer(
                    self._norm(f"{at}.nonlinear1.batchnorm"),
                    _product(self._folded(f"{at}.linear1", f"{at}.nonlinear2.batchnorm")),
                    self._tensor(f"{at}.cam_layer.linear_local.weight"),
                    _product((mask[0], mask[1])),
                    _product((mask[2], mask[3])),
                )
            )
        transit = f"xvector.transit{number}"
        return _DenseBlock(
            layers,
            self._norm(f"{transit}.nonlinear.batchnorm"),
            self._tensor(f"{transit}.linear.weight").squeeze(-1),
        )


_MASK_PARTS = ("linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias")


class _DenseLayer:
    """A layer whose output, masked by its context, is appended to its input's channels.

    Inputs and outputs are (channels, windows, frames).
    """

    def __init__(
        self, norm: _Affine, narrow: _Affine, local: Tensor, squeeze: _Affine, excite: _Affine
    ) -> None:
        self._norm, self._narrow = norm, narrow
        self._taps = local.permute(2, 0, 1).flatten(0, 1).contiguous()  # of a kernel of three
        self._squeeze, self._excite = squeeze, excite

    def __call__(self, x: Tensor, dilation: int) -> Tensor:
        x = functional.relu_(_times(self._narrow, _activated(x, self._norm)))
        before, local, after = (self._taps @ x.flatten(1)).view(3, -1, *x.shape[1:]).unbind()
        local[..., dilation:] += before[..., :-dilation]
        local[..., :-dilation] += after[..., dilation:]
        parts = functional.avg_pool1d(x, _MASK_FRAMES, _MASK_FRAMES, ceil_mode=True)
        context = x.mean(-1, keepdim=True) + parts
        mask = _times(self._excite, functional.relu_(_times(self._squeeze, context)))
        by_frame = torch.sigmoid(mask).repeat_interleave(_MASK_FRAMES, -1)[..., : x.shape[-1]]
        return local * by_frame


class _DenseBlock:
    def __init__(self, layers: list[_DenseLayer], norm: _Affine, transit: Tensor) -> None:
        self._layers, self._norm, self._transit = layers, norm, transit

    def __call__(self, x: Tensor, dilation: int) -> Tensor:
        # Allocated once for all layers: concatenating would copy the earlier rows each time.
        width = len(x)
        rows = x.new_empty(self._transit.shape[1], *x.shape[1:])
        rows[:width] = x
        for layer in self._layers:
            new = layer(rows[:width], dilation)
            rows[width : width + len(new)] = new
            width += len(new)
        return (self._transit @ _activated(rows, self._norm).flatten(1)).view(-1, *x.shape[1:])


def _activated(x: Tensor, norm: _Affine) -> Tensor:
    scale, shift = norm
    return functional.relu_(torch.addcmul(shift.unsqueeze(1), x, scale.unsqueeze(1)))


def _product(convolution: _Affine) -> _Affine:
    """Return a convolution over single frames as a matrix product's weight and bias."""
    weight, bias = convolution
    return weight.squeeze(-1), bias.unsqueeze(1)


def _times(product: _Affine, x: Tensor) -> Tensor:
    weight, bias = product
    return torch.addmm(bias, weight, x.flatten(1)).view(-1, *x.shape[1:])


# Kaldi's log-mel filter bank for 16 kHz audio, the input that speaker models are trained on.

BINS = 80
FRAME = SAMPLE_RATE * 25 // 1000  # samples per frame
HOP = SAMPLE_RATE // 100
_FFT = 512
_PRE_EMPHASIS = 0.97
_LEAST = float(np.finfo(np.float32).eps)


class FilterBank:
    """Computes filter-bank frames on one device, equal to Kaldi's without dither."""

    def __init__(self, device: torch.device) -> None:
        filters = mel_filter_bank(
            *(_FFT // 2 + 1, BINS, 20.0, SAMPLE_RATE / 2, SAMPLE_RATE),
            mel_scale="kaldi",
            triangularize_in_mel_space=True,
        )
        self._filters = torch.from_numpy(filters).float().to(device)
        self._window = torch.hann_window(FRAME, periodic=False, device=device).pow(0.85)
        self._device = device

    def frames(self, pcm: torch.Tensor) -> torch.Tensor:
        """Return (n, 80) of 16 kHz samples between -1 and 1, at least 400 of them.

        Frame k has samples from 160 k to 160 k + 400.
        """
        pieces = pcm.to(self._device).unfold(0, FRAME, HOP)
        pieces = pieces - pieces.mean(1, keepdim=True)
        before = torch.cat([pieces[:, :1], pieces[:, :-1]], 1)
        pieces = (pieces - _PRE_EMPHASIS * before) * self._window
        power = torch.fft.rfft(pieces, _FFT).abs().square()
        found: torch.Tensor = (power @ self._filters).clamp_min(_LEAST).log()
        return found
