"""The KV cache of engines that allocate it by settings, not by a device's free memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from auricle.checkpoints.geometry import kv_values_per_token
from auricle.config.workers import DecoderSettings
from auricle.core.errors import SettingsError
from auricle.embeddings.layout import ITEM_BYTES

_GIB = 1 << 30


def kv_tokens(settings: DecoderSettings, config: Mapping[str, Any]) -> int:
    """Return the number of tokens in the KV cache, by `kv_blocks` or else by `kv_cache_gib`.

    `config` is the text decoder's.

    Raises SettingsError if a single prompt of `max_model_len` tokens does not fit.
    """
    per_token = kv_values_per_token(config) * ITEM_BYTES[settings.dtype]
    if settings.kv_blocks is None:
        tokens = settings.kv_cache_gib * _GIB // per_token
        size = f"kv_cache_gib is {settings.kv_cache_gib}"
    else:
        tokens = settings.kv_blocks * settings.block_size
        size = f"kv_blocks is {settings.kv_blocks}, of {settings.block_size} tokens each"
    if tokens < settings.max_model_len:
        raise SettingsError(
            f"{settings.component}.{size}, which is room for {tokens} tokens, but one prompt may "
            f"have max_model_len {settings.max_model_len}: raise it, or lower max_model_len"
        )
    return tokens
