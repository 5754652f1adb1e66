"""Visits to a frontend's pages in Chromium, for tests and benchmarks."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from auricle.client.stream import stream_file
from auricle.frontend.transport.access.keys import key_file, new_key
from auricle.load.capacity_profile import CapacityProfile, PoolProfile
from auricle_testing import recordings
from auricle_testing.chromium.driving import driven
from auricle_testing.server import ROOT, Server

RECORDING = ROOT / "models/demo/recordings/market.flac"
CALLER, OPERATOR = new_key("acme", None, ["live"]), new_key("ops", None, ["operations"])
_CAPTIONS_SECONDS, _OPERATIONS_SECONDS = 240, 480
# One speaker needs two encode workers.
_PROFILE = CapacityProfile(
    "any",
    "a test",
    "2026-01-01",
    encode_worker=PoolProfile({"windows": 1.0}, 5.0, 2.0),
    pd_worker=PoolProfile({"decodes": 0.01}, 5.0, 2.0),
)


def emptied(folder: Path) -> Path:
    """Make an empty folder for screenshots; earlier screenshots are removed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def captions(server: Server, folder: Path) -> dict[str, Any]:
    """Use the live captions page (page.mjs), with a recording as microphone and as file."""
    samples, rate = soundfile.read(RECORDING, dtype="int16")
    recording = folder / "recording.wav"
    soundfile.write(recording, samples, rate)
    return asyncio.run(
        driven("page.mjs", f"{server.url}/", recording, folder, seconds=_CAPTIONS_SECONDS)
    )


def watched(folder: Path) -> list[str]:
    """Options of a graph with API keys, and a planner that soon requests a second encode worker.

    Its files are written into `folder`.
    """
    profile, keys = folder / "profile.json", folder / "keys.yaml"
    _PROFILE.write(profile)
    keys.write_text(key_file(CALLER[1]) + key_file(OPERATOR[1], first=False))
    return [
        f"--Frontend.api_keys_file={keys}",
        "--Planner.replicas=1",
        f"--Planner.profile={profile}",
        "--Planner.step_seconds=1",
        "--Planner.encode={maximum: 2}",
        "--Common.load_report_seconds=0.5",
    ]


def operations(server: Server, folder: Path) -> dict[str, Any]:
    """Open the operators' page (ops.mjs) of such a graph during a session with speech."""
    return asyncio.run(_looked_at(server, folder))


async def _looked_at(server: Server, folder: Path) -> dict[str, Any]:
    speech = np.tile(recordings.minute(), 8)
    speaking = asyncio.create_task(_spoken(server, speech))
    try:
        return await driven(
            *("ops.mjs", f"{server.url}/ops", folder),
            seconds=_OPERATIONS_SECONDS,
            environment={"KEY": OPERATOR[0]},
        )
    finally:
        speaking.cancel()
        await asyncio.wait([speaking])


async def _spoken(server: Server, samples: np.ndarray) -> None:
    async for _ in stream_file(server.url, samples, live=True, api_key=CALLER[0]):
        pass


def said_unasked(found: dict[str, Any]) -> list[str]:
    """Console messages, except Chromium's own line about the 401 that asks for a key."""
    return [line for line in found["console"] if "status of 401" not in line]
