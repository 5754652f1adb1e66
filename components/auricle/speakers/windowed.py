"""A speaker model of windows: a vector of each, whose voices are told apart by clustering."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from auricle.speakers.campplus import CamPlusPlus
from auricle.speakers.filter_bank import FRAME, HOP, FilterBank
from auricle.speakers.model import Diarized, Heard, Turn
from auricle.speakers.speech import active, frame_labels, turns_of
from auricle.speakers.voices import from_bytes, tell_apart, to_bytes
from auricle.speakers.weights import read_weights

_WINDOW, _STEP = 148, 75  # frames: 1.5 s, every 0.75 s


class WindowedModel:
    """CAM++ over windows of 1.5 s, with the voices of each session. See `SpeakerModel`."""

    def __init__(self, directory: Path, device: str, threads: int, most_windows: int) -> None:
        """A pass has `most_windows`. Sets torch's number of CPU threads for the process.

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
        self.diarize([Heard(np.zeros(2 * HOP * _WINDOW, np.int16), b"", 1)])

    def check(self, state: bytes) -> None:
        """Raise BadRequest unless `state` is one of this model's, or empty; at once."""
        from_bytes(state, self._mark, self._network.width)

    def diarize(self, batch: Sequence[Heard]) -> list[Diarized]:
        """See `SpeakerModel.diarize`. Windows of all segments share passes."""
        segments = [_Segment(self._frames(heard)) for heard in batch]
        vectors = iter(self._vectors([w for one in segments for w in one.windows]))
        found = []
        for heard, segment in zip(batch, segments, strict=True):
            own = [next(vectors) for _ in segment.windows]
            voices = from_bytes(heard.state, self._mark, self._network.width)
            if not own:
                found.append(Diarized((), heard.state))
                continue
            labels, voices = tell_apart(voices, np.stack(own), heard.most)
            found.append(Diarized(segment.turns(labels.tolist()), to_bytes(voices, self._mark)))
        return found

    def _frames(self, heard: Heard) -> torch.Tensor:
        if len(heard.pcm) < FRAME:
            return torch.zeros(0, 80)
        samples = torch.from_numpy(heard.pcm.astype(np.float32) / 32768)
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


class _Segment:
    """The windows of a segment that have speech, and where that is."""

    def __init__(self, frames: torch.Tensor) -> None:
        self.windows: list[torch.Tensor] = []
        self._centres: list[int] = []
        if not len(frames):
            return
        self._loudness = torch.logsumexp(frames, 1).numpy()
        self._speech = active(self._loudness)
        # Silence would make windows of different voices alike, so it is left out of them.
        heard = np.flatnonzero(self._speech)
        for start in _starts(len(heard)):
            rows = heard[start : start + _WINDOW]
            self._centres.append(int(rows[len(rows) // 2]))
            self.windows.append(_window(frames[rows]))

    def turns(self, labels: Sequence[int]) -> tuple[Turn, ...]:
        """Return whose turn it was, given the voice of each window."""
        by_frame = frame_labels(self._centres, labels, self._loudness)
        return tuple(
            Turn(1 + voice, start * HOP, end * HOP)
            for voice, start, end in turns_of(by_frame, self._speech)
        )


def _starts(frames: int) -> list[int]:
    """Return the first of each window's frames of speech; the last one ends with them."""
    if frames <= _WINDOW:
        return [0] if frames else []
    starts = list(range(0, frames - _WINDOW + 1, _STEP))
    if starts[-1] + _WINDOW + _STEP // 2 <= frames:
        starts.append(frames - _WINDOW)
    return starts


def _window(frames: torch.Tensor) -> torch.Tensor:
    """Return a full window without its mean; a short segment is repeated."""
    centred = frames - frames.mean(0)
    if len(centred) < _WINDOW:
        centred = centred.repeat(-(-_WINDOW // len(centred)), 1)[:_WINDOW]
    return centred
