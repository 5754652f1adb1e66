"""faster-whisper: jobs from stdin, texts to stdout.

By default its own defaults, but for one thread and a beam of 1. The second argument is a JSON
object that changes this: `compute_type`, `cpu_threads`, `beam_size`, and `batch`, with which
several parts of a recording are decoded at once.

Runs in `.venv-peers`, where nothing of the project is.
"""

import json
import os
import sys
import time

import numpy as np
from faster_whisper import BatchedInferencePipeline, WhisperModel

answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)
options = {"compute_type": "float32", "cpu_threads": 1, "beam_size": 1, "batch": 0}
options |= json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}
model = WhisperModel(
    sys.argv[1],
    device="cpu",
    compute_type=options["compute_type"],
    cpu_threads=options["cpu_threads"],
)
batched = BatchedInferencePipeline(model)
print(json.dumps({"ready": True}), file=answers)
for line in sys.stdin:
    job = json.loads(line)
    samples = np.fromfile(job["audio"], "<i2").astype(np.float32) / np.float32(32768)
    began = time.process_time()
    asked = {"language": job["language"], "beam_size": options["beam_size"]}
    if options["batch"]:
        segments, _ = batched.transcribe(samples, batch_size=options["batch"], **asked)
    else:
        segments, _ = model.transcribe(samples, vad_filter=job["vad"], **asked)
    text = " ".join(segment.text.strip() for segment in segments)
    answer = {"text": text, "cpu_seconds": time.process_time() - began}
    print(json.dumps(answer), file=answers)
