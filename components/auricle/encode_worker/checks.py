"""What is refused of a request before anything is encoded."""

from __future__ import annotations

import numpy as np

from auricle.checkpoint.geometry import Geometry
from auricle.errors import BadRequest
from auricle.messages.encoding import BlockFeatures, WindowFeatures


def check_window(window: WindowFeatures, geometry: Geometry) -> None:
    """Raise BadRequest unless the window and its blocks have the form that they say."""
    if not 0 <= window.context <= geometry.context_blocks:
        raise BadRequest(
            f"a window has 0 to {geometry.context_blocks} blocks before it, got {window.context}"
        )
    limit = geometry.window_frames
    if not 0 < window.frames <= limit:
        raise BadRequest(f"a window has 1 to {limit} frames, got {window.frames}")
    for number, block in enumerate(window.blocks):
        _check_block(block, geometry, last=number + 1 == len(window.blocks))


def _check_block(block: BlockFeatures, geometry: Geometry, *, last: bool) -> None:
    whole = geometry.block_frames
    if not 0 < block.frames <= whole or (block.frames < whole and not last):
        raise BadRequest(
            f"block {block.key} has {block.frames} frames; all but a window's last have {whole}"
        )
    if block.log_mel is None:
        return
    if len(block.log_mel) != (expected := block.frames * geometry.mel_bins * 4):
        raise BadRequest(
            f"block {block.key} says {block.frames} frames but carries "
            f"{len(block.log_mel)} bytes, expected {expected}"
        )
    if not np.isfinite(np.frombuffer(block.log_mel, np.float32)).all():
        raise BadRequest(f"block {block.key} contains values that are not finite")
