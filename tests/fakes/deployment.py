"""A deployment as the doctor collects it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from auricle.protocol.diagnosis import (
    BusState,
    Description,
    Diagnosis,
    DiscoveryState,
    KvRoom,
    Parts,
    ProbeAnswer,
    Probed,
    ProcessAnswer,
    RunningModel,
    SegmentNeed,
    SlabState,
    Transfers,
)

VERSIONS = {"auricle": "0.1.0", "torch": "2.13.0"}
MODEL = RunningModel("cd34" * 8, "float32")
UCX = Transfers(("UCX",), ("TCP", "shared memory"), "", "")
PARTS = {
    "frontend": Parts(),
    "processor": Parts(model=MODEL, segment=SegmentNeed(30.0, 645)),
    "encode_worker": Parts(model=MODEL, slab=SlabState(256, 256, 3), transfers=UCX),
    "pd_worker": Parts(
        model=MODEL, slab=SlabState(256, 256, 3), transfers=UCX, kv=KvRoom(80_000, 2048, 32)
    ),
}
STEPS = Probed(0.003, 0.012, 0.03, 0.001, 6656)


@dataclass
class Graph:
    """A deployment of a frontend, a processor and two workers of each pool, for fault injection."""

    answers: dict[str, ProcessAnswer] = field(default_factory=dict)
    probe: ProbeAnswer = field(default_factory=lambda: ProbeAnswer("b1", "c1", "d1", STEPS))
    discovery: DiscoveryState = field(default_factory=lambda: DiscoveryState("file", "up"))
    bus: BusState | None = None
    unasked: int = 0
    optional_pools: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for number, (name, component) in enumerate(
            (
                *(("", "frontend"), ("b1", "processor")),
                *(("c1", "encode_worker"), ("c2", "encode_worker")),
                *(("d1", "pd_worker"), ("d2", "pd_worker")),
            )
        ):
            said = Description("host-a", 40 + number, 0, VERSIONS, 0, "", False, PARTS[component])
            self.answers[name] = ProcessAnswer(component, name, 0.01, said)

    def answer(self, name: str, **changes: Any) -> None:
        self.answers[name] = msgspec.structs.replace(self.answers[name], **changes)

    def said(self, name: str, **changes: Any) -> None:
        said = self.answers[name].description
        assert said is not None
        self.answer(name, description=msgspec.structs.replace(said, **changes))

    def parts(self, name: str, **changes: Any) -> None:
        said = self.answers[name].description
        assert said is not None
        self.said(name, parts=msgspec.structs.replace(said.parts, **changes))

    def without(self, *names: str) -> None:
        for name in names:
            del self.answers[name]

    def probed(self, **changes: Any) -> None:
        self.probe = ProbeAnswer("b1", "c1", "d1", msgspec.structs.replace(STEPS, **changes))

    def diagnosis(self) -> Diagnosis:
        answers = tuple(self.answers.values())
        return Diagnosis(
            *("auricle", 0.0, 1.0, answers, self.unasked, (self.probe,), self.discovery, self.bus),
            optional_pools=self.optional_pools,
        )
