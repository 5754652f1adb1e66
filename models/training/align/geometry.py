"""config.json of the demo aligner, in the nested form of the published one."""

from __future__ import annotations

import copy
from typing import Any

from models.training.align.targets import BIN_SECONDS

# 41 s: segments end by 30 s. The published aligner has 5,000 bins.
BINS = 512
TEXT_LAYERS = 5


def aligner_config(demo: dict[str, Any], timestamp_token_id: int) -> dict[str, Any]:
    """Extend the demo checkpoint's config by two text layers and a classifier of bins."""
    config = copy.deepcopy(demo)
    config["timestamp_token_id"] = timestamp_token_id
    config["timestamp_segment_time"] = round(BIN_SECONDS * 1000)
    thinker = config["thinker_config"]
    thinker["model_type"] = "qwen3_forced_aligner"
    thinker["classify_num"] = BINS
    thinker["text_config"]["num_hidden_layers"] = TEXT_LAYERS
    thinker["text_config"]["tie_word_embeddings"] = False
    return config
