"""Accuracy on a few held-out clips during training."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from models.training.align.decode import word_times
from models.training.align.examples import Clip, ClipMaker
from models.training.align.model import Aligner
from models.training.align.prompts import prompt_ids
from models.training.corpus import Corpus
from models.training.model import LogMel, audio_length
from models.training.prompts import Tokenizer

_LENGTHS = (3.0, 10.0, 20.0, 30.0)
_PER_LENGTH = {3.0: 16, 10.0: 6, 20.0: 3, 30.0: 3}


@torch.inference_mode()
def boundaries(model: Aligner, tokenizer: Tokenizer, clip: Clip, mel: LogMel) -> list[float]:
    """Errors (ms) of all boundaries of a clip whose truth is known."""
    features = mel(torch.from_numpy(clip.samples))
    audio = model.embed_audio([features])
    words = [spoken.word for spoken in clip.said]
    ids = torch.tensor([prompt_ids(tokenizer, words, audio_length(features.shape[1]))])
    hidden = model(audio, ids, torch.ones_like(ids)).layers[-1]
    times = word_times(model.bins(hidden[ids == model.timestamp]).argmax(-1))
    return [
        abs(told - true) * 1000
        for pair, spoken in zip(times, clip.said, strict=True)
        for told, true in zip(pair, spoken.span, strict=True)
        if true is not None and not math.isnan(true)
    ]


def probe(corpus: Path, tokenizer: Tokenizer) -> Callable[[Aligner], str]:
    """Return a function that reports a model's median and 95th percentile by voices and length."""
    clips = {
        (voices, length): [
            ClipMaker(spoken, seed=at).clip(length) for at in range(_PER_LENGTH[length])
        ]
        for voices, spoken in ((name, Corpus(corpus, name)) for name in ("seen", "unseen"))
        for length in _LENGTHS
    }
    mel = LogMel()

    def judge(model: Aligner) -> str:
        model.eval()
        shown = []
        for (voices, length), some in clips.items():
            errors = [e for clip in some for e in boundaries(model, tokenizer, clip, mel)]
            median, high = np.percentile(errors, (50, 95))
            shown.append(f"{voices} {length:.0f} s {median:.0f}/{high:.0f}")
        model.train()
        return " · ".join(shown)

    return judge
