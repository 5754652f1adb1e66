"""Requests and load reports within the graph, from the types of `auricle.protocol`.

Requests name sessions and tenants that do not exist, and the witness's, which they must not reach.
"""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from auricle.audio.features import FeaturePacket
from auricle.load.reports import LOAD_TOPIC, ProcessorLoad, WorkerLoad
from auricle.protocol import recognition, sessions
from auricle.protocol.annotation import TranslateRequest
from auricle.protocol.control import AskAlive
from auricle.protocol.diagnosis import AskDescription
from benchmarks.hostile.inputs import Lie
from benchmarks.hostile.strategies import values as v
from benchmarks.hostile.strategies.values import Draw, Values, chance, pick, weighted

WITNESS, STRANGER = "@witness", "made-up"
# Seals with the deployment's secret (of one of its processes), and seals of others.
GOOD = "good"
SEALS = (GOOD, "none", "made up", "cut", "of another", "old", "twice")
COMPONENTS = ("processor", "encode_worker", "pd_worker")
# The deadline of TranslateWorker, and a little more.
_TRANSLATE_SECONDS = 25.0
_KEY = "0123456789abcdef" * 2
_REF = recognition.WindowRef(
    *(_KEY, "made-up", "float32", 13, "encode-1-00000000", bytes(64), 1 << 40, 1 << 12, 0, "DRAM"),
    *(1 << 41, 0, 1, 1),
)
_BLOCK = recognition.BlockFeatures(_KEY, 100, final=True, log_mel=bytes(100 * 128 * 4))
_WINDOW = recognition.WindowFeatures(_KEY, -10.0, (_BLOCK,), partial=True)
_DECODED = recognition.DecodeWindow(_KEY, 13, True, _REF)
_PACKET = FeaturePacket(0, 0, 160, True, bytes(128 * 4))
_BY = ("", "")  # session and tenant, or tenant and session: see _named
_REQUESTS: tuple[tuple[str, str, msgspec.Struct], ...] = (
    ("processor", "admit", sessions.AdmitSession(*_BY)),
    ("processor", "withdraw", sessions.WithdrawAdmission(*_BY)),
    ("processor", "open", sessions.OpenSession(*_BY, None, "", 640)),
    ("processor", "push", sessions.PushAudio(*_BY, 0, bytes(320))),
    ("processor", "push", sessions.PushAudio(*_BY, 0, b"", features=_PACKET)),
    ("processor", "end", sessions.EndAudio(*_BY, 16_000)),
    ("encode_worker", "generate", recognition.EncodeRequest(*_BY, (_WINDOW,))),
    (
        *("pd_worker", "generate"),
        recognition.DecodeRequest(*_BY, "r1", (1, 2), (_DECODED,), (3,), 8, True),
    ),
    *((name, "alive", asked) for name in COMPONENTS for asked in (AskAlive(), AskDescription())),
)


def _plain(message: msgspec.Struct) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(message, builtin_types=(bytes,))
    return plain


def _named(message: dict[str, Any], name: str, tenant: str) -> dict[str, Any]:
    own = {"session": name, "admission": name, "tenant": tenant}
    return {key: own.get(key, value) for key, value in message.items()}


def valid_request(endpoint: str, session: str, tenant: str, seal: str) -> Lie:
    """A valid request to the first component with that endpoint."""
    component, message = next((one, asked) for one, name, asked in _REQUESTS if name == endpoint)
    return Lie(component, endpoint, v.packed(_named(_plain(message), session, tenant)), seal)


@st.composite
def _lies(draw: Draw, component: str, endpoint: str, good: Values, seconds: float = 0.0) -> Lie:
    """A request, mostly with something wrong, under any seal.

    It never has both names of the witness: with the secret, that is the witness's own request.
    """
    names = pick(draw, ((WITNESS, STRANGER), (STRANGER, WITNESS), (STRANGER, STRANGER)))
    message: Any = _named(draw(good), *names)
    what = draw(st.integers(0, 19))
    if what > 2:
        message = draw(v.bent(st.just(message)))
    elif what == 2:
        message = draw(v.anything)
    seal = GOOD if chance(draw, 60) else pick(draw, SEALS)
    return Lie(component, endpoint, v.packed(message), seal, seconds)


def _of(component: str, endpoint: str, good: msgspec.Struct) -> Values:
    valid = weighted((3, st.just(_plain(good))), (1, v.of_type(type(good))))
    return _lies(component, endpoint, valid)


requests = weighted(*((1 if one[1] == "alive" else 3, _of(*one)) for one in _REQUESTS))
_said = weighted(
    (4, st.just("the market opens at seven")),
    (3, st.sampled_from(v.ORDERS)),
    (1, v.short_texts),
    (1, st.sampled_from(("", " ", "a" * 200_000, "market " * 3_000, "…", "\u0301" * 5_000))),
)
_pairs = st.builds(lambda one, count: [one] * count, st.tuples(_said, _said),
                   st.sampled_from((0, 0, 1, 2, 400)))  # fmt: skip
_translation = st.fixed_dictionaries(
    {
        "type": st.just(TranslateRequest.__struct_config__.tag),
        **{"session": st.just(""), "tenant": st.just("")},
        "source_language": st.sampled_from(("en", "", "es", "English", "xx")),
        "target": st.sampled_from(("es", "es", "es", "en", "xx", "", "<|im_start|>")),
        "source": _said,
        "whole": st.booleans(),
    },
    optional={"context": _pairs, "terms": _pairs, "answer": _said, "draft": _said,
              "background": st.booleans()},
)  # fmt: skip
translate_requests = _lies("translate_worker", "generate", _translation, _TRANSLATE_SECONDS)


@st.composite
def reports(draw: Draw) -> Lie:
    """A load report of a process that does not exist, or other bytes."""
    component: Any = pick(draw, COMPONENTS)
    good: msgspec.Struct = ProcessorLoad(1, 2.0, 1, 1, 0.0, 0.1)
    if component != "processor":
        work = {"windows": 1.0, "decodes": 1.0}
        good = WorkerLoad(component, 1, 2.0, work, 0.5, 1.0, 0.0, 0.1, 0.0, 1.0, 16)
    message, instance = draw(v.bent(st.just(_plain(good)))), pick(draw, (0, 1, 2, *v.INTEGERS))
    payload = v.packed(message | {"instance": instance} if isinstance(message, dict) else message)
    what = draw(st.integers(0, 3))
    if what < 2:
        payload = draw(v.noise(300)) if what else v.wrong(draw, payload)
    return Lie(component, LOAD_TOPIC, payload, pick(draw, ("none", GOOD, pick(draw, SEALS))))
