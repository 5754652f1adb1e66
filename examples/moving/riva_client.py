"""From NVIDIA Riva: the official client with another address (`Frontend.grpc_port`).

python examples/moving/riva_client.py FILE.wav [--address 127.0.0.1:50051]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import riva.client

_SAMPLES = 1600  # 100 ms


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path, help="WAV")
    parser.add_argument("--address", default="127.0.0.1:50051")
    asked = parser.parse_args()
    service = riva.client.ASRService(riva.client.Auth(uri=asked.address))
    config = riva.client.StreamingRecognitionConfig(
        config=riva.client.RecognitionConfig(), interim_results=True
    )
    with riva.client.AudioChunkFileIterator(asked.file, _SAMPLES) as audio:
        for response in service.streaming_response_generator(audio, config):
            for result in response.results:
                if result.is_final:
                    print(result.alternatives[0].transcript)


if __name__ == "__main__":
    main()
