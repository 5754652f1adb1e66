"""Recordings while a graph drains."""

from __future__ import annotations

import io

import httpx
import numpy as np
import soundfile

IN_WORK = "auricle_frontend_recordings"


async def transcribed(client: httpx.AsyncClient, samples: np.ndarray) -> httpx.Response:
    file = io.BytesIO()
    soundfile.write(file, samples, 16_000, format="WAV")
    files = {"file": ("long.wav", file.getvalue())}
    return await client.post("/v1/audio/transcriptions", data={"model": "demo"}, files=files)
