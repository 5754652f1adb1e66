"""From NVIDIA Triton: the official client, with the names of auricle's tensors.

python examples/moving/triton_client.py FILE [--address 127.0.0.1:50051]
"""

from __future__ import annotations

import argparse
import queue
from pathlib import Path
from typing import Any

import soundfile
import tritonclient.grpc as triton

_SAMPLES = 1600  # 100 ms at 16 kHz


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path, help="WAV or FLAC, one channel")
    parser.add_argument("--address", default="127.0.0.1:50051")
    parser.add_argument("--model", default="demo")
    asked = parser.parse_args()
    samples, rate = soundfile.read(asked.file, dtype="float32")
    client = triton.InferenceServerClient(asked.address)
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    for at in range(0, len(samples), _SAMPLES):
        part = samples[at : at + _SAMPLES]
        audio = triton.InferInput("AUDIO", [len(part)], "FP32")
        audio.set_data_from_numpy(part)
        first, last = at == 0, at + _SAMPLES >= len(samples)
        options = {"parameters": {"sample_rate": rate}} if first else {}
        client.async_stream_infer(
            asked.model, [audio], sequence_id=1, sequence_start=first, sequence_end=last, **options
        )
    client.stop_stream()  # waits for the answers
    while not answers.empty():
        result, error = answers.get()
        if error is not None:
            raise SystemExit(str(error))
        if result.as_numpy("IS_FINAL")[0]:
            print(result.as_numpy("TEXT")[0].decode())


if __name__ == "__main__":
    main()
