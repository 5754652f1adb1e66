"""transformers' Whisper as published, greedy: jobs from standard input, texts to standard output.

For audio of more than 30 s, transformers moves from window to window by timestamps.
"""

import json
import os
import sys
import time

import numpy as np
import torch
from transformers import AutoTokenizer, WhisperFeatureExtractor, WhisperForConditionalGeneration

_RATE = 16_000
_WINDOW = 30 * _RATE

answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)
torch.set_num_threads(1)
path = sys.argv[1]
model = WhisperForConditionalGeneration.from_pretrained(path, dtype=torch.float32).eval()
tokenizer = AutoTokenizer.from_pretrained(path)
features = WhisperFeatureExtractor(feature_size=model.config.num_mel_bins)


@torch.inference_mode()
def text(samples: np.ndarray, language: str | None) -> str:
    """Return the transcript."""
    long = len(samples) > _WINDOW
    read = features(
        samples,
        sampling_rate=_RATE,
        return_tensors="pt",
        return_attention_mask=True,
        truncation=False,
        padding="longest" if long else "max_length",
    )
    spoken = {"language": language, "task": "transcribe"} if language else {}
    tokens = model.generate(
        read.input_features,
        attention_mask=read.attention_mask,
        return_timestamps=long,
        num_beams=1,
        do_sample=False,
        **spoken,
    )
    return tokenizer.decode(tokens[0], skip_special_tokens=True).strip()


print(json.dumps({"ready": True}), file=answers)
for line in sys.stdin:
    job = json.loads(line)
    samples = np.fromfile(job["audio"], "<i2").astype(np.float32) / np.float32(32768)
    whole = [(0.0, len(samples) / _RATE)]
    began = time.process_time()
    heard = [
        text(samples[round(start * _RATE) : round(end * _RATE)], job["language"])
        for start, end in (whole if job["parts"] is None else job["parts"])
    ]
    answer = {"text": " ".join(heard), "cpu_seconds": time.process_time() - began}
    print(json.dumps(answer), file=answers)
