"""Baseline (a): the checkpoint in transformers, all audio so far at every chunk.

python -m benchmarks.baselines.transformers_direct --model build/checkpoints/60m --threads 1
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from transformers import DynamicCache

from benchmarks.baselines.protocol import Decode, DecodeJob, serve
from models.training.reference import STOPS, Reference


def load(model: Path, threads: int) -> Decode:
    """Load the feature extractor, encoder and decoder of transformers in float32."""
    torch.set_num_threads(threads)
    reference = Reference(model)
    text, pad = reference.model.text, reference.model.audio_token_id
    stops = {reference.tokenizer.convert_tokens_to_ids(token) for token in STOPS}

    @torch.inference_mode()
    def decode(samples: np.ndarray, job: DecodeJob) -> list[int]:
        audio = reference.embeddings(samples)
        ids = torch.tensor([[*job.head, *[pad] * len(audio), *job.tail]])
        embeds = text.model.embed_tokens(ids)
        embeds = embeds.masked_scatter((ids == pad)[..., None], audio)
        cache, answer = DynamicCache(), []
        while len(answer) < job.max_tokens:
            logits = text(inputs_embeds=embeds, past_key_values=cache, logits_to_keep=1).logits
            token = int(logits[0, -1].argmax())
            if token in stops:
                break
            answer.append(token)
            embeds = text.model.embed_tokens(torch.tensor([[token]]))
        return answer

    return decode


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    serve(lambda: load(arguments.model, arguments.threads))
