"""The processor's live audio path, from pushes to decodes that are answered at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from auricle.audio.constants import BINS, HOP
from auricle.audio.features import FeaturePacket
from auricle.checkpoints.geometry import Geometry
from auricle.config.settings import ProcessorSettings
from auricle.processor.session.actions import Decode, EncodeAhead
from auricle.processor.session.rules import SessionRules
from auricle.processor.session.state_machine import SessionStateMachine
from auricle.processor.session.windows import KeyScheme
from auricle.protocol.sessions import Boundary, OpenSession, PushAudio

_GEOMETRY = Geometry(100, 800, 64, 64, 2, 1_000, 7, 512)
_KEYS = KeyScheme("checkpoint", "float32", "tenant")
_ANSWER = (1, 2, 3)
_BLOCK = 10 * HOP  # 100 ms


class _Prompt:
    """Replaces the checkpoint's prompt format."""

    def head(self, context: str) -> tuple[int, ...]:
        return ()

    def tail(self, language: str | None) -> tuple[int, ...]:
        return ()

    def answer(self, tokens: tuple[int, ...], language: str | None) -> tuple[str, str]:
        return "English", "word" if tokens else ""

    def opening(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        return ()

    def whole_characters(self, tokens: tuple[int, ...]) -> bool:
        return True


@dataclass(frozen=True)
class Pushes:
    """One kind of pushes: `make(n)` returns n of them, for a session with chunks of `chunk_ms`."""

    name: str
    size: int
    chunk_ms: int
    make: Callable[[int], list[PushAudio]]


def serve(pushes: Iterable[PushAudio], chunk_ms: int) -> int:
    """Push all of them and do the work; return the number of decodes."""
    opened = OpenSession("s", "t", None, "", chunk_ms)
    rules = SessionRules.of(opened, ProcessorSettings.model_validate({}))
    session = SessionStateMachine(opened, rules, _Prompt(), _GEOMETRY, _KEYS, None)
    decodes = 0
    for push in pushes:
        session.push(push.start_sample, push.pcm, push.boundary, push.features)
        while (action := session.next_action()) is not None:
            if isinstance(action, Decode):
                decodes += 1
                session.decoded(_ANSWER)
            elif isinstance(action, EncodeAhead):
                session.encoded_ahead()
    return decodes


def _of_samples(samples: int, boundary: Boundary) -> Callable[[int], list[PushAudio]]:
    data = np.arange(samples).astype("<i2").tobytes()
    return lambda n: [PushAudio("s", "t", i * samples, data, boundary) for i in range(n)]


def _of_frames(packets: int) -> list[PushAudio]:
    """One frame each, in segments of 16 s."""
    frame = np.full((1, BINS), -4.0, "<f4").tobytes()
    made = []
    for number in range(packets):
        segment, within = divmod(number, 1_600)
        start, samples = segment * 256_000, (within + 1) * HOP
        packet = FeaturePacket(start, within, samples, within == 1_599, frame)
        begin = start + within * HOP
        made.append(PushAudio("s", "t", begin, b"", "endpoint" if packet.last else "none", packet))
    return made


PUSHES = (
    Pushes("pushes of 10 ms", 500, 80, _of_samples(HOP, "none")),
    Pushes("pushes of 10 ms, seldom decoded", 500, 10_000, _of_samples(HOP, "none")),
    Pushes("pushes of one sample", 400, 80, _of_samples(1, "none")),
    Pushes("segments of 10 ms", 150, 640, _of_samples(HOP, "endpoint")),
    Pushes("pauses every 100 ms", 150, 640, _of_samples(_BLOCK, "pause")),
    Pushes("segments of 100 ms", 150, 640, _of_samples(_BLOCK, "endpoint")),
    Pushes("packets of one frame", 300, 640, _of_frames),
)
