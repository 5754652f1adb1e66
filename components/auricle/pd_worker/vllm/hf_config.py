"""How vLLM sees a checkpoint's config.json: as our text decoder, without M-RoPE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# Of rotary embeddings in several dimensions. Positions of audio and text are the same in all of
# them, where the plain embedding is equal; with these keys vLLM would want the dimensions.
_DIMENSIONS = ("mrope_section", "mrope_interleaved", "interleaved")


@dataclass(frozen=True)
class AsDecoder:
    """Changes a config that vLLM has read, as its `hf_overrides`; `name` is of the decoder.

    A class, because vLLM sends it to its engine's process.
    """

    name: str

    def __call__(self, config: Any) -> Any:
        """Return the config, changed in place."""
        config.architectures = [self.name]
        thinker = getattr(config, "thinker_config", config)
        # vLLM first asks with an empty config what would be changed.
        text = getattr(thinker, "text_config", None)
        for key in ("rope_parameters", "rope_scaling"):
            values = getattr(text, key, None)
            if isinstance(values, dict):
                for dimension in _DIMENSIONS:
                    values.pop(dimension, None)
        return config
