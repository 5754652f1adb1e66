"""A client that computes features and detects speech itself, as a phone would.

    python examples/log_mel_client.py FILE [--url ws://127.0.0.1:8080] [--dtype float16]

It sends `encoding: log_mel` to /v1/audio/stream: the new frames for every 640 ms of speech, and
nothing for silence. This example uses auricle's own code for voice activity, features and
segments, so the text is the same as from samples. docs/log_mel.md specifies them for other
platforms.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import websockets

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.decode import read_audio
from auricle.audio.features import DTYPES, pack
from auricle.audio.mel import IncrementalLogMel
from auricle.audio.pcm import Int16, to_float, to_int16
from auricle.audio.segmentation import SegmentLimits
from auricle.audio.voice_activity import VoiceActivityModel, VoiceState
from auricle.frontend.audio.chunks import AudioChunk
from auricle.frontend.audio.endpointing import Endpointer, EndpointingOptions

GRID = SAMPLE_RATE * 640 // 1000
SHORTEST = SAMPLE_RATE // 10  # too short for a word; the server would not decode it


def speech(pcm: Int16, options: EndpointingOptions, packet: int = 1_600) -> Iterator[AudioChunk]:
    """Yield the speech in the samples, detected as in a live session."""
    model, voice, gate = VoiceActivityModel(), VoiceState(), Endpointer(options)
    for at in range(0, len(pcm), packet):
        part = pcm[at : at + packet]
        heard = model.probabilities([(voice, voice.frames(part))])[0]
        yield from (event for event in gate.push(part, heard) if isinstance(event, AudioChunk))
    rest = voice.frames(np.zeros(0, np.int16), last=True)
    last = gate.finish(model.probabilities([(voice, rest)])[0])
    yield from (event for event in last if isinstance(event, AudioChunk))


class FeatureSender:
    """Converts pieces of speech to packets, segment by segment, with the server's cut rules."""

    def __init__(self, limits: SegmentLimits, dtype: str) -> None:
        self._limits = limits
        self._dtype = dtype
        self._begin(0, np.zeros(0, np.int16))

    def _begin(self, start: int, pcm: Int16) -> None:
        self._start = start
        self._pcm = pcm
        self._mel = IncrementalLogMel()
        self._final_frames = 0  # already sent in their final form

    def packets(self, pieces: Iterable[AudioChunk]) -> Iterator[bytes]:
        """Yield a packet at every grid point and at the end of each segment."""
        for piece in pieces:
            if not len(self._pcm):
                self._begin(piece.start, self._pcm)
            self._pcm = np.concatenate([self._pcm, piece.pcm])
            yield from self._send(piece.boundary)

    def _send(self, boundary: str) -> Iterator[bytes]:
        limits = self._limits
        ends = boundary == "endpoint"
        while len(self._pcm) > limits.maximum or (len(self._pcm) == limits.maximum and not ends):
            cut = limits.forced_cut(lambda start, end: self._pcm[start:end])
            rest = self._pcm[cut:]
            yield from self._segment(cut)
            self._begin(self._start + cut, rest)
        samples = len(self._pcm)
        if samples and (ends or (boundary == "pause" and samples >= limits.pause_after)):
            yield from self._segment(samples)
            self._begin(self._start + samples, np.zeros(0, np.int16))
        else:
            # Packets are irrevocable, so the part where the segment may still be cut has to wait.
            yield from self._grid(min(samples, limits.maximum - limits.search))

    def _segment(self, samples: int) -> Iterator[bytes]:
        if samples < SHORTEST:
            return
        yield from self._grid(samples - 1)
        yield self._packet(samples, last=True)

    def _grid(self, until: int) -> Iterator[bytes]:
        """Yield packets for the unsent grid points up to `until`."""
        first = self._mel.samples // GRID * GRID + GRID
        for samples in range(first, until + 1, GRID):
            yield self._packet(samples, last=False)

    def _packet(self, samples: int, *, last: bool) -> bytes:
        self._mel.push(to_float(self._pcm[self._mel.samples : samples]))
        frames, _ = self._mel.frames(samples)
        first = min(self._final_frames, len(frames))
        # Frame k is final once 160·k + 200 samples are in; later packets repeat the others.
        self._final_frames = max(0, (samples - 200) // 160 + 1)
        return pack(self._start, first, samples, frames[first:], last=last, dtype=self._dtype)


async def transcribe(url: str, packets: Iterable[bytes], dtype: str, *, partials: bool) -> str:
    """Return the session's text. This sends all packets immediately; a phone would pace them."""
    start = {"encoding": "log_mel", "feature_dtype": dtype, "partials": partials}
    async with websockets.connect(f"{url}/v1/audio/stream", ping_timeout=None) as socket:
        await socket.send(json.dumps({"type": "start", "sample_rate": SAMPLE_RATE, **start}))
        for packet in packets:
            await socket.send(packet)
        await socket.send('{"type": "end"}')
        async for message in socket:
            event = json.loads(message)
            if event["type"] in ("done", "error"):
                return str(event.get("text", event.get("message")))
    raise ConnectionError("the server left without a result")


def main() -> None:
    """Transcribe the file that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--url", default="ws://127.0.0.1:8080")
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    arguments = parser.parse_args()
    pcm = to_int16(read_audio(arguments.file))
    # The server's settings (configs/demo.yaml and defaults).
    limits = SegmentLimits.from_seconds(pause_after=3, maximum=20, search=3)
    pieces = speech(pcm, EndpointingOptions(0.5, 500, 300))
    packets = list(FeatureSender(limits, arguments.dtype).packets(pieces))
    print(f"{sum(map(len, packets)) / 1000:.0f} kB; as samples {2 * len(pcm) / 1000:.0f} kB")
    print(asyncio.run(transcribe(arguments.url, packets, arguments.dtype, partials=False)))


if __name__ == "__main__":
    main()
