"""faster-whisper with its defaults but for the beam, which is 1: jobs from stdin, texts to stdout.

Runs in `.venv-peers`, where nothing of the project is.
"""

import json
import os
import sys
import time

import numpy as np
from faster_whisper import WhisperModel

answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)
model = WhisperModel(sys.argv[1], device="cpu", compute_type="float32", cpu_threads=1)
print(json.dumps({"ready": True}), file=answers)
for line in sys.stdin:
    job = json.loads(line)
    samples = np.fromfile(job["audio"], "<i2").astype(np.float32) / np.float32(32768)
    began = time.process_time()
    segments, _ = model.transcribe(
        samples, language=job["language"], beam_size=1, vad_filter=job["vad"]
    )
    text = " ".join(segment.text.strip() for segment in segments)
    answer = {"text": text, "cpu_seconds": time.process_time() - began}
    print(json.dumps(answer), file=answers)
