"""From a plain vLLM server, or OpenAI: the same client with another address.

python examples/moving/openai_client.py FILE [--url http://127.0.0.1:8080]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from openai import OpenAI


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--key", default="any", help="an API key, where keys are set")
    asked = parser.parse_args()
    client = OpenAI(base_url=f"{asked.url}/v1", api_key=asked.key)
    model = client.models.list().data[0].id
    # With `stream` each part's text arrives as soon as it is final; otherwise all text at the end.
    with asked.file.open("rb") as file:
        events = client.audio.transcriptions.create(file=file, model=model, stream=True)
        for event in events:
            if event.type == "transcript.text.delta":
                print(event.delta, end="", flush=True)
    print()


if __name__ == "__main__":
    main()
