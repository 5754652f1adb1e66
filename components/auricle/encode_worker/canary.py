"""A pass over silence: warms the encoder up, and tells a broken device from a bad job."""

from __future__ import annotations

import numpy as np
import torch

from auricle.audio.constants import BINS
from auricle.checkpoint.geometry import Geometry
from auricle.encode_worker.encoder import Encoder, MelWindow
from auricle.errors import AuricleError

_SILENCE = -10.0  # its log-mel


def encode_silence(encoder: Encoder, geometry: Geometry) -> None:
    """Encode one window of silence (encoder's thread). Raises whatever the device raises."""
    silence = np.full((geometry.window_frames, BINS), _SILENCE, np.float32)
    for embeddings in encoder.encode([MelWindow(silence, _SILENCE)]):
        check_finite(embeddings)


def check_finite(embeddings: torch.Tensor) -> None:
    """Raise AuricleError unless all values are finite."""
    if not torch.isfinite(embeddings).all():
        raise AuricleError("the encoder produced values that are not finite")
