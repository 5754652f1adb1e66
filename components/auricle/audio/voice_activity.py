"""Computes speech probabilities with silero-vad's ONNX models.

The model is a small recurrent network over frames of 512 samples (32 ms) at
16 kHz, each preceded by the last 64 samples of the frame before
(https://github.com/snakers4/silero-vad). Its wheel has the network in two equivalent forms: for one
frame of many streams, and for many frames of one stream. Only these model files are used, because
importing the package would load torch.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import Int16, to_float

VAD_FRAME = 512  # samples
_CONTEXT = 64  # samples
_STATE = (2, 1, 128)
# Up to this number, streams are evaluated one after the other. In a batch, a frame of three streams
# costs as much as three frames of one stream; a frame of one alone costs more than twice that.
_FEW_STREAMS = 3
_ONE_FRAME_FILE = "silero_vad_16k_op15.onnx"
_SEQUENCE_FILE = "silero_vad_16k_sequence.onnx"

Floats = npt.NDArray[np.float32]


@dataclass
class VoiceState:
    """One stream's recurrent state, and its samples of an incomplete frame."""

    recurrent: Floats = field(default_factory=lambda: np.zeros(_STATE, np.float32))
    context: Floats = field(default_factory=lambda: np.zeros(_CONTEXT, np.float32))
    rest: Int16 = field(default_factory=lambda: np.zeros(0, np.int16))

    def frames(self, pcm: Int16, *, last: bool = False) -> Floats:
        """Return the frames that `pcm` completes, float32 (n, 512); `last` pads with zeros."""
        samples = np.concatenate([self.rest, pcm])
        if last and len(samples) % VAD_FRAME:
            missing = VAD_FRAME - len(samples) % VAD_FRAME
            samples = np.concatenate([samples, np.zeros(missing, np.int16)])
        whole = len(samples) // VAD_FRAME * VAD_FRAME
        self.rest = samples[whole:]
        return to_float(samples[:whole]).reshape(-1, VAD_FRAME)


class VoiceActivityModel:
    """The network for many streams, on one CPU thread. Not thread-safe.

    Raises ImportError if the silero-vad package is missing.
    """

    def __init__(self) -> None:
        self._session = _session(_ONE_FRAME_FILE)
        self._sequence = VoiceActivitySequence()
        self._rate = np.array(SAMPLE_RATE, np.int64)

    def probabilities(self, streams: Sequence[tuple[VoiceState, Floats]]) -> list[Floats]:
        """Return each stream's speech probabilities, float32 (n,), for its frames (n, 512).

        Advances the states in place.
        """
        if len(streams) <= _FEW_STREAMS:
            return [self._sequence.probabilities(*stream) for stream in streams]
        return self._together(streams)

    def _together(self, streams: Sequence[tuple[VoiceState, Floats]]) -> list[Floats]:
        """Evaluate frame i of all streams in one call of the network."""
        # Longest first, so that each step's rows are the first ones of the arrays.
        order = sorted(range(len(streams)), key=lambda at: -len(streams[at][1]))
        rows = [streams[at] for at in order]
        counts = np.array([len(frames) for _, frames in rows])
        inputs = _with_context(rows, int(counts[0]))
        recurrent = np.concatenate([state.recurrent for state, _ in rows], axis=1)
        found = np.zeros(inputs.shape[:2], np.float32)
        for step, frames in enumerate(inputs):
            active = int((counts > step).sum())
            output, recurrent[:, :active] = self._session.run(
                None,
                {"input": frames[:active], "state": recurrent[:, :active], "sr": self._rate},
            )
            found[step, :active] = output[:, 0]
        results: list[Floats] = [found[:0, 0]] * len(streams)
        for row, (at, (state, frames)) in enumerate(zip(order, rows, strict=True)):
            if len(frames):
                state.recurrent = recurrent[:, row : row + 1].copy()
                state.context = frames[-1, -_CONTEXT:].copy()
            results[at] = found[: len(frames), row]
        return results


def _with_context(rows: Sequence[tuple[VoiceState, Floats]], steps: int) -> Floats:
    """Return each row's frames, each after the end of the previous one: (steps, rows, 576)."""
    inputs = np.zeros((steps, len(rows), _CONTEXT + VAD_FRAME), np.float32)
    for row, (state, frames) in enumerate(rows):
        count = len(frames)
        if count:
            inputs[:count, row, _CONTEXT:] = frames
            inputs[0, row, :_CONTEXT] = state.context
            inputs[1:count, row, :_CONTEXT] = frames[:-1, -_CONTEXT:]
    return inputs


class VoiceActivitySequence:
    """The network for many frames of one stream, such as a recording. Not thread-safe.

    It runs on one CPU thread, and takes a third of the CPU of single frames. Raises ImportError if
    the silero-vad package is missing.
    """

    def __init__(self) -> None:
        self._session = _session(_SEQUENCE_FILE)

    def probabilities(self, state: VoiceState, frames: Floats) -> Floats:
        """Return the speech probabilities, float32 (n,), of the next frames (n, 512).

        Advances `state` in place. All frames are one call, whose memory grows with them.
        """
        if not len(frames):
            return np.zeros(0, np.float32)
        context = np.concatenate([state.context[None], frames[:-1, -_CONTEXT:]])
        probabilities, hidden, cell = self._session.run(
            None,
            {
                "input": np.concatenate([context, frames], axis=1),
                "h": state.recurrent[:1],
                "c": state.recurrent[1:],
            },
        )
        state.recurrent = np.concatenate([hidden, cell])
        state.context = frames[-1, -_CONTEXT:].copy()
        found: Floats = probabilities
        return found


def _session(file: str) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(
        str(_model_file(file)), options, providers=["CPUExecutionProvider"]
    )


def _model_file(name: str) -> Path:
    spec = importlib.util.find_spec("silero_vad")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(
            "the package silero-vad, which contains the voice activity model, is not installed"
        )
    return Path(spec.submodule_search_locations[0]) / "data" / name
