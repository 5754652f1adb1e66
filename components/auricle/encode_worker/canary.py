"""A pass over silence: warms the encoder up, and tells a broken device from a bad job."""

from __future__ import annotations

import numpy as np
import torch

from auricle.checkpoint.geometry import Geometry
from auricle.encode_worker.encoder import AudioEncoder, MelWindow
from auricle.errors import AuricleError

_SILENCE = -10.0  # its log-mel
# Of windows of live sessions, in seconds: kernels are chosen and planned for each shape of a pass.
_SHORTER = (0.24, 0.48, 0.72)


def warm_up(encoder: AudioEncoder, geometry: Geometry, most_windows: int) -> None:
    """Run what live sessions will run, before the first of them comes (encoder's thread).

    On a CPU a window will do. Raises whatever the device raises.
    """
    encoder.prepare()
    encode_silence(encoder, geometry)
    if not encoder.on_gpu:
        return
    counts = [1 << power for power in range(most_windows.bit_length())]
    for count in sorted({*counts, most_windows}):
        for frames in (*(round(100 * seconds) for seconds in _SHORTER), geometry.window_frames):
            silence = np.full((frames, geometry.mel_bins), _SILENCE, np.float32)
            encoder.encode([MelWindow(silence, _SILENCE)] * count)


def encode_silence(encoder: AudioEncoder, geometry: Geometry) -> None:
    """Encode one window of silence (encoder's thread). Raises whatever the device raises."""
    silence = np.full((geometry.window_frames, geometry.mel_bins), _SILENCE, np.float32)
    for embeddings in encoder.encode([MelWindow(silence, _SILENCE)]):
        check_finite(embeddings)


def check_finite(embeddings: torch.Tensor) -> None:
    """Raise AuricleError unless all values are finite."""
    refuse_unless(bool(torch.isfinite(embeddings).all()))


def refuse_unless(finite: bool) -> None:
    """Raise AuricleError unless all values were found to be finite."""
    if not finite:
        raise AuricleError("the encoder produced values that are not finite")
