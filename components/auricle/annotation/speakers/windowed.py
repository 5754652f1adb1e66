"""A speaker model of windows: clusters the windows' vectors into voices.

Windows are consecutive; where two neighbours sound like different voices, another window between
them is added. Most segments have one voice, and the vectors are the main cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from auricle.annotation.speakers.campplus import FRAME, HOP, CamPlusPlus, FilterBank
from auricle.annotation.speakers.model import Diarized, SpeakerSegment, SpeakerSpan
from auricle.annotation.speakers.voices import (
    active,
    assign_voices,
    frame_labels,
    from_bytes,
    groups,
    to_bytes,
    turns_of,
)
from auricle.annotation.speakers.weights import read_weights

_WINDOW = 148  # frames: 1.5 s
_LEAST_MORE = 37  # frames of speech after the last full window that get a window of their own


class WindowedModel:
    """CAM++ over windows of 1.5 s, with the voices of each session. See `SpeakerModel`."""

    def __init__(self, directory: Path, device: str, threads: int, most_windows: int) -> None:
        """A pass has up to `most_windows`. Sets torch's number of CPU threads for the process.

        Raises CheckpointError as `read_weights` does.
        """
        torch.set_num_threads(threads)
        self._device = torch.device(device)
        fingerprint, weights = read_weights(directory)
        self.fingerprint = fingerprint
        self._mark = bytes.fromhex(fingerprint)[:8]
        self._network = CamPlusPlus(weights, self._device)
        self._bank = FilterBank(self._device)
        self._most = most_windows

    def warm_up(self) -> None:
        """Run once on silence. Raises whatever the device raises."""
        silence = self._frames(SpeakerSegment(np.zeros(2 * HOP * _WINDOW, np.int16), b"", 1))
        self._vectors([_window(silence[:_WINDOW])])

    def check(self, state: bytes) -> None:
        """Raise BadRequest unless `state` is empty or this model's; does not block."""
        from_bytes(state, self._mark, self._network.width)

    def diarize(self, batch: Sequence[SpeakerSegment]) -> list[Diarized]:
        """See `SpeakerModel.diarize`. Windows of all segments share passes."""
        segments = [_Windows(self._frames(segment)) for segment in batch]
        self._embed(segments)
        for windows in segments:
            windows.split_changes()
        self._embed(segments)
        return [self._diarized(*pair) for pair in zip(batch, segments, strict=True)]

    def _diarized(self, segment: SpeakerSegment, windows: _Windows) -> Diarized:
        if not windows.has_speech:
            return Diarized((), segment.state)
        voices = from_bytes(segment.state, self._mark, self._network.width)
        labels, voices = assign_voices(voices, windows.vectors(), segment.most)
        return Diarized(windows.turns(labels.tolist()), to_bytes(voices, self._mark))

    def _embed(self, segments: Sequence[_Windows]) -> None:
        vectors = iter(self._vectors([w for one in segments for w in one.missing()]))
        for windows in segments:
            windows.take(vectors)

    def _frames(self, segment: SpeakerSegment) -> torch.Tensor:
        if len(segment.pcm) < FRAME:
            return torch.zeros(0, 80)
        samples = torch.from_numpy(segment.pcm.astype(np.float32) / 32768)
        return self._bank.frames(samples).cpu()

    def _vectors(self, windows: Sequence[torch.Tensor]) -> list[np.ndarray]:
        found: list[np.ndarray] = []
        for start in range(0, len(windows), self._most):
            part = torch.stack(list(windows[start : start + self._most]))
            vectors = self._network.embed(part)
            if not bool(torch.isfinite(vectors).all()):
                raise ArithmeticError("the speaker model produced values that are not finite")
            found += list(vectors.cpu().numpy())
        return found


class _Windows:
    """A segment's windows of speech."""

    def __init__(self, frames: torch.Tensor) -> None:
        self._starts: list[int] = []  # each window's first frame of speech
        self._by_start: dict[int, np.ndarray] = {}  # the vectors computed so far
        if not len(frames):
            return
        self._loudness = torch.logsumexp(frames, 1).numpy()
        self._speech = active(self._loudness)
        # Silence would make windows of different voices alike, so windows leave it out.
        self._speech_frames = np.flatnonzero(self._speech)
        self._frames = frames
        self._starts = _starts(len(self._speech_frames))

    @property
    def has_speech(self) -> bool:
        return bool(self._starts)

    def missing(self) -> list[torch.Tensor]:
        """Return the windows without a vector, in order."""
        return [_window(self._frames[self._rows(at)]) for at in self._without_vector()]

    def take(self, vectors: Iterator[np.ndarray]) -> None:
        """Store the vectors of the `missing` windows."""
        for at in self._without_vector():
            self._by_start[at] = next(vectors)

    def vectors(self) -> np.ndarray:
        """Return the vectors of all windows in order, (n, width)."""
        return np.stack([self._by_start[at] for at in self._starts])

    def split_changes(self) -> None:
        """Add a window between neighbours that sound like different voices."""
        if len(self._starts) < 2:
            return
        voice = np.zeros(len(self._starts))
        for number, rows in enumerate(groups(self.vectors())):
            voice[rows] = number
        changes = np.flatnonzero(np.diff(voice))
        between = [(self._starts[at] + self._starts[at + 1]) // 2 for at in changes]
        self._starts = sorted({*self._starts, *between})

    def turns(self, labels: Sequence[int]) -> tuple[SpeakerSpan, ...]:
        rows = [self._rows(at) for at in self._starts]
        centres = [int(one[len(one) // 2]) for one in rows]
        by_frame = frame_labels(centres, labels, self._loudness)
        return tuple(
            SpeakerSpan(1 + voice, start * HOP, end * HOP)
            for voice, start, end in turns_of(by_frame, self._speech)
        )

    def _without_vector(self) -> list[int]:
        return [at for at in self._starts if at not in self._by_start]

    def _rows(self, at: int) -> np.ndarray:
        return self._speech_frames[at : at + _WINDOW]


def _starts(frames: int) -> list[int]:
    """Return each window's first frame of speech; the last window ends with the speech."""
    if frames <= _WINDOW:
        return [0] if frames else []
    starts = list(range(0, frames - _WINDOW + 1, _WINDOW))
    if starts[-1] + _WINDOW + _LEAST_MORE <= frames:
        starts.append(frames - _WINDOW)
    return starts


def _window(frames: torch.Tensor) -> torch.Tensor:
    """Return a full window without its mean; a short segment is repeated."""
    centred = frames - frames.mean(0)
    if len(centred) < _WINDOW:
        centred = centred.repeat(-(-_WINDOW // len(centred)), 1)[:_WINDOW]
    return centred
