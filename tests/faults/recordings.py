"""Recordings while a graph drains."""

from __future__ import annotations

import io
import re

import httpx
import numpy as np
import soundfile

from auricle_testing.server import (
    ANSWER_SECONDS,
    Server,
)


async def transcribed(client: httpx.AsyncClient, samples: np.ndarray) -> httpx.Response:
    file = io.BytesIO()
    soundfile.write(file, samples, 16_000, format="WAV")
    files = {"file": ("long.wav", file.getvalue())}
    return await client.post("/v1/audio/transcriptions", data={"model": "demo"}, files=files)


def recordings_in_work(server: Server) -> float:
    text = httpx.get(f"{server.url}/metrics", timeout=ANSWER_SECONDS).text
    (line,) = re.findall(r"^auricle_frontend_recordings (\S+)$", text, re.MULTILINE)
    return float(line)
