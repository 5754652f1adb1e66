"""What a liar inside the graph's network sends: requests, load reports, garbage.

Well-formed requests name made-up sessions and tenants, and those of the witness, whom they must
not reach. Values are of the right type mostly, and impossible.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from auricle.audio.features import FeaturePacket
from auricle.load.reports import ProcessorLoad, WorkerLoad
from auricle.protocol.control import AskAlive
from auricle.protocol.diagnosis import AskDescription
from auricle.protocol.recognition import (
    BlockFeatures,
    DecodeRequest,
    DecodeWindow,
    EncodeRequest,
    WindowFeatures,
    WindowRef,
)
from auricle.protocol.sessions import (
    AdmitSession,
    EndAudio,
    OpenSession,
    PushAudio,
    WithdrawAdmission,
)
from benchmarks.hostile.generators.values import INTEGERS, bent, chance, mutated, rubbish, value

_KEY = "0123456789abcdef" * 2
_SECOND = bytes(100 * 128 * 4)
_REF = WindowRef(
    _KEY,
    fingerprint="made-up",
    dtype="float32",
    length=13,
    agent="encode-1-00000000",
    agent_metadata=bytes(64),
    address=1 << 40,
    size=1 << 12,
    device=0,
    memory="DRAM",
    header=1 << 41,
    slot=0,
    generation=1,
    lease=1,
)
COMPONENTS = ("processor", "encode_worker", "pd_worker")
_PACKET = FeaturePacket(0, 0, 160, True, bytes(128 * 4))
_FEATURES = WindowFeatures(_KEY, -10.0, (BlockFeatures(_KEY, 100, True, _SECOND),), True)
WITNESS, STRANGER = "@witness", "made-up"
# How a message is sealed: with the deployment's secret (by a process of it that lies), or by
# somebody who does not have it.
GOOD = "good"
SEALS = (GOOD, "none", "made up", "cut", "of another", "old", "twice")


@dataclass(frozen=True)
class Lie:
    """A request to `component`'s `endpoint`, sealed in one of the ways of SEALS.

    Texts equal to WITNESS stand for the witness's own session, admission or tenant, and are filled
    in before it is sent. It is answered in `seconds`, if that is more than for others.
    """

    component: str
    endpoint: str
    message: Any = field(repr=False)
    seal: str = "none"
    seconds: float = 0.0


def _plain(message: msgspec.Struct) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(message, builtin_types=(bytes,))
    return plain


def session_request(endpoint: str, session: str, tenant: str) -> Lie:
    """A request to the processor about a session, as a frontend makes it."""
    made: dict[str, msgspec.Struct] = {
        "admit": AdmitSession(tenant, session),
        "withdraw": WithdrawAdmission(tenant, session),
        "open": OpenSession(session, tenant, None, "", 640),
        "push": PushAudio(session, tenant, 0, bytes(320)),
        "end": EndAudio(session, tenant, 16_000),
    }
    return Lie("processor", endpoint, _plain(made[endpoint]))


def encode_request(session: str, tenant: str) -> Lie:
    """A request to encode a window, as a processor makes it."""
    return Lie("encode_worker", "generate", _plain(EncodeRequest(session, tenant, (_FEATURES,))))


def _good(rng: random.Random) -> Lie:
    """A request as the graph's own processes make it, of someone who may not make it."""
    session, tenant = (rng.choice((WITNESS, STRANGER)) for _ in range(2))
    # The witness's own names on both would be the witness: whoever knows the deployment's secret.
    tenant = STRANGER if session == WITNESS else tenant
    what = rng.randrange(9)
    if what == 8:
        asked = rng.choice((AskAlive(), AskDescription()))
        return Lie(rng.choice(COMPONENTS), "alive", _plain(asked))
    if what < 5:
        endpoint = ("admit", "withdraw", "open", "push", "end")[what]
        return session_request(endpoint, session, tenant)
    if what == 5:
        packet = PushAudio(session, tenant, 0, b"", features=_PACKET)
        return Lie("processor", "push", _plain(packet))
    if what == 6:
        return encode_request(session, tenant)
    window = DecodeWindow(_KEY, 13, True, _REF)
    decode = DecodeRequest(session, tenant, "r1", (1, 2), (window,), (3,), 8, True)
    return Lie("pd_worker", "generate", _plain(decode))


def request(rng: random.Random) -> tuple[str, Lie]:
    """One request to an endpoint of the graph."""
    return lied(rng, _good(rng))


def lied(rng: random.Random, good: Lie) -> tuple[str, Lie]:
    """The request, or one like it, sealed in one way or another; and the kind of case."""
    kind = f"{good.component}.{good.endpoint}"
    seal = GOOD if chance(rng, 0.6) else rng.choice(SEALS)
    kind = f"{kind}, seal {seal}"
    if chance(rng, 0.15):
        return kind, replace(good, message=_sendable(good.message), seal=seal)
    message = bent(rng, good.message)
    if chance(rng, 0.3):
        message = _deeper(rng, message)
    if chance(rng, 0.05):
        message = value(rng)
    return kind, replace(good, message=_sendable(message), seal=seal)


def _deeper(rng: random.Random, message: dict[str, Any]) -> dict[str, Any]:
    """The message with the objects in its lists bent too."""
    changed = dict(message)
    for name, old in message.items():
        if isinstance(old, list | tuple) and old and isinstance(old[0], dict):
            one = bent(rng, old[0])
            if chance(rng, 0.5):
                one = _deeper(rng, one)
            changed[name] = [one] * rng.choice((1, 1, 2, 40))
    return changed


def _sendable(message: Any) -> Any:
    """The same within what msgpack can carry: integers of 64 bits, Unicode."""
    if isinstance(message, bool | float | bytes) or message is None:
        return message
    if isinstance(message, int):
        return max(-(2**63), min(message, 2**64 - 1))
    if isinstance(message, str):
        return message.encode(errors="replace").decode()
    if isinstance(message, dict):
        return {_sendable(name): _sendable(one) for name, one in message.items()}
    return [_sendable(one) for one in message]


def report(rng: random.Random) -> tuple[str, dict[str, Any]]:
    """A load report of a process that does not exist, or bytes that are none; and its topic."""
    component = rng.choice(COMPONENTS)
    instance = rng.choice((0, 1, 2**63 - 1, rng.getrandbits(63)))
    if component == "processor":
        good: msgspec.Struct = ProcessorLoad(instance, 2.0, 1, 1, 0.0, 0.1)
    else:
        kind: Any = component
        work = {"windows": 1.0, "decodes": 1.0}
        good = WorkerLoad(kind, instance, 2.0, work, 0.5, 1.0, 0.0, 0.1, 0.0, 1.0, 16)
    plain = _plain(good)
    what = rng.randrange(4)
    seal = rng.choice(("none", GOOD, rng.choice(SEALS)))
    if what == 0:
        return "rubbish", {"component": component, "seal": seal, "payload": rubbish(rng, 300)}
    message = {
        **bent(rng, plain),
        "instance": rng.choice((instance, instance, rng.choice(INTEGERS))),
    }
    payload = msgspec.msgpack.encode(_sendable(message))
    if what == 1:
        payload = mutated(rng, payload)
    return "report", {"component": component, "seal": seal, "payload": payload}


# HTTP, ZeroMQ, TLS, HTTP/2, NATS, lengths, SSH, Redis.
_GREETINGS = (
    b"",
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(48),
    b"\x16\x03\x01\x02\x00\x01",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"INFO {}\r\n",
    b"CONNECT {}\r\n",
    bytes(4),
    b"\xff" * 8,
    b"SSH-2.0-x\r\n",
    b"*1\r\n$4\r\nPING\r\n",
)


def garbage(rng: random.Random) -> tuple[str, dict[str, Any]]:
    """Bytes for a port inside the graph; `port` (0 to 1) says which of them."""
    what = rng.randrange(4)
    greeting = rng.choice(_GREETINGS)
    if what == 0:
        data = greeting + rubbish(rng, 2_000)
    elif what == 1:  # a length that lies, big or little, and a little of what it announces
        size = rng.choice(INTEGERS) % 2**64
        data = size.to_bytes(8, rng.choice(("big", "little")))[rng.choice((0, 4)) :]
        data += rubbish(rng, 200)
    elif what == 2:
        data = greeting + msgspec.msgpack.encode(_sendable(value(rng)))
    else:
        data = mutated(rng, greeting + bytes(64))
    return "garbage", {"port": rng.random(), "data": data}
