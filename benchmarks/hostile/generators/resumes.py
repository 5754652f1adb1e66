"""Sessions that are resumed with what the server did not say: tokens that were changed, made up,
taken from others or kept too long, other positions, other options, other audio."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.hostile.generators.values import INTEGERS, chance, mutated, rubbish, value

STREAM = "/v1/audio/stream"
RESUMES = f"{STREAM}?resume=true"
START: dict[str, Any] = {"type": "start", "sample_rate": 16_000, "language": "English"}
# Which token: of a session that has spoken, of one whose audio is all decoded, of a `ready`, one
# that may have expired, and one of another client.
SPOKEN, OPEN, FRESH, OLDEST, ANOTHERS = "spoken", "open", "fresh", "oldest", "another's"
# The first message of the session that the token is of.
STARTS: dict[str, dict[str, Any]] = {
    **dict.fromkeys((SPOKEN, FRESH, OLDEST, ANOTHERS), START),
    OPEN: START | {"endpointing": {"enabled": False}, "chunk_ms": 160},
}
_LONGEST = 65_536
_VERSION, _HINTS = b"\x01", 16


@dataclass(frozen=True)
class Resumption:
    """How one session is resumed; without changes, as it should be.

    `token` is one of the above, changed as `damage` and `seed` say. `position` is added to the
    token's, or JSON in its place. `resume` is JSON with TOKEN and FROM for both; none if empty.
    `start` are fields that differ. `packets` follow, and `end` if `ends`, on each of `at_once`
    connections. `refused`: nobody may get a session in this way.
    """

    token: str = SPOKEN
    damage: str = ""
    seed: int = 0
    position: int | str = 0
    resume: str = '{"token": TOKEN, "from_sample": FROM}'
    start: tuple[tuple[str, Any], ...] = ()
    packets: tuple[bytes, ...] = ()
    ends: bool = True
    at_once: int = 1
    path: str = RESUMES
    refused: bool = True

    def first(self, token: str, from_sample: int) -> bytes:
        """The first message, given what the server said."""
        start = json.dumps(STARTS[self.token] | dict(self.start))
        if not self.resume:
            return start.encode()
        position = self.position
        if isinstance(position, int):
            position = str(from_sample + position)
        changed = token if not self.damage else self._damaged(token)
        resume = self.resume.replace("FROM", position).replace("TOKEN", json.dumps(changed))
        return f'{start[:-1]}, "resume": {resume}}}'.encode()

    def _damaged(self, token: str) -> str:
        changed = _DAMAGES[self.damage](random.Random(self.seed), token)
        return changed if changed != token else f"{token}A"


def resumption(rng: random.Random) -> tuple[str, Resumption]:
    """A session that is resumed, and what is wrong with that."""
    lie = rng.choice(_LIES)
    token = rng.choice((SPOKEN, SPOKEN, OPEN, FRESH))
    made = lie(rng, Resumption(token, packets=_audio(rng), ends=chance(rng, 0.8)))
    kind = lie.__name__.strip("_").replace("_", " ")
    return f"{kind}: {made.damage}" if made.damage else kind, made


def _audio(rng: random.Random) -> tuple[bytes, ...]:
    """Audio that is not the session's, often hardly any; more would be load."""
    sizes = (0, 1, 2, 199, 402, 3_199, 3_200, 16_000)
    return tuple(rng.randbytes(rng.choice(sizes)) for _ in range(rng.choice((0, 0, 1, 3))))


# ── what is wrong ───────────────────────────────────────────────────────────


def _token(rng: random.Random, good: Resumption) -> Resumption:
    return replace(good, damage=rng.choice(tuple(_DAMAGES)), seed=rng.randrange(2**32))


def _position(rng: random.Random, good: Resumption) -> Resumption:
    wrong = rng.choice((-(2**63), -16_000, -1, 1, 160, 2**31, 2**63, 2**64, 10**30))
    if chance(rng, 0.6):
        return replace(good, position=wrong)
    texts = (
        *("-1", "-0.0", "0.5", "1e3", "1e400", "NaN", "Infinity", "true", "null", '"0"', "[0]"),
        *("9" * 4_000, "9" * 5_000, "{}", "0x0", "", str(2**64 + rng.choice(INTEGERS))),
    )
    return replace(good, position=rng.choice(texts))


def _shape(rng: random.Random, good: Resumption) -> Resumption:
    """Another value in place of the object, or fields that it does not have."""
    shapes = (
        *("null", "[]", "{}", '""', "TOKEN", "FROM", '{"token": TOKEN}', '{"from_sample": FROM}'),
        '{"token": FROM, "from_sample": TOKEN}',
        '{"token": null, "from_sample": FROM}',
        '{"token": [TOKEN], "from_sample": FROM}',
        '{"token": TOKEN, "from_sample": FROM, "session": "sess_1"}',
        '{"token": TOKEN, "from_sample": FROM, "token": "A"}',
        '{"token": TOKEN, "from_sample": FROM}, "resume": null',
        '{"token": ' + "[" * 30_000,
        json.dumps(value(rng, 2)),
    )
    return replace(good, resume=rng.choice(shapes))


def _start(rng: random.Random, good: Resumption) -> Resumption:
    """Options that the session did not begin with."""
    others = (
        *(("language", "english"), ("language", None), ("context", "Ada"), ("chunk_ms", 320)),
        *(("chunk_ms", 640), ("chunk_ms", 0), ("partials", False), ("encoding", "pcm_mulaw")),
        *(("encoding", "log_mel"), ("sample_rate", 8_000), ("sample_rate", 16_001)),
        *(("endpointing", {"enabled": False}), ("endpointing", {"threshold": 0.05})),
        *(("model", "demo"), ("tenant", "witness"), ("session", "sess_1")),
    )
    return replace(good, token=SPOKEN, start=tuple(rng.sample(others, rng.choice((1, 1, 2)))))


def _missing(_rng: random.Random, good: Resumption) -> Resumption:
    return replace(good, resume="")


def _of_another(_rng: random.Random, good: Resumption) -> Resumption:
    return replace(good, token=ANOTHERS)


def _old(_rng: random.Random, good: Resumption) -> Resumption:
    """It may still be good, and may have been used before."""
    return replace(good, token=OLDEST, refused=False)


def _audio_of_another(_rng: random.Random, good: Resumption) -> Resumption:
    return replace(good, refused=False)


def _at_once(rng: random.Random, good: Resumption) -> Resumption:
    return replace(good, at_once=rng.randrange(2, 5), refused=False)


def _path(rng: random.Random, good: Resumption) -> Resumption:
    """Where nothing is resumed, or in other words."""
    path = rng.choice(
        (
            *(STREAM, f"{STREAM}?resume=false", f"{STREAM}?resume=TRUE", f"{STREAM}?resume=1"),
            *(f"{STREAM}?resume=", f"{STREAM}?resume=true&resume=x", f"{STREAM}?RESUME=true"),
            *("/v1/realtime?resume=true", "/v1/realtime"),
        )
    )
    return replace(good, path=path, refused=False)


_LIES: tuple[Callable[[random.Random, Resumption], Resumption], ...] = (
    *(_token, _token, _token, _token, _position, _position, _shape, _shape, _start, _start),
    *(_missing, _of_another, _old, _audio_of_another, _audio_of_another, _at_once, _path),
)


# ── changed tokens ──────────────────────────────────────────────────────────


def _plain(token: str) -> bytes:
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))


def _written(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _cut(rng: random.Random, token: str) -> str:
    return token[: rng.choice((0, 1, 3, 22, 23, len(token) - 1, rng.randrange(len(token))))]


def _bit(rng: random.Random, token: str) -> str:
    data = bytearray(_plain(token))
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return _written(bytes(data))


def _bytes(rng: random.Random, token: str) -> str:
    return _written(mutated(rng, _plain(token)))


def _characters(rng: random.Random, token: str) -> str:
    return mutated(rng, token.encode()).decode("latin-1")


def _marks(rng: random.Random, token: str) -> str:
    """With other marks of client and options, which are in the clear."""
    data = _plain(token)
    return _written(data[:1] + rng.randbytes(_HINTS) + data[1 + _HINTS :])


def _long(rng: random.Random, token: str) -> str:
    size = rng.choice((_LONGEST - 1, _LONGEST, _LONGEST + 1, 900_000))
    return (token * (1 + size // len(token)))[:size]


def _spaced(rng: random.Random, token: str) -> str:
    at = rng.randrange(len(token) + 1)
    return token[:at] + rng.choice((" ", "\n", "=", "\0", "é", "+", "\u202e")) + token[at:]


def _made_up(rng: random.Random, token: str) -> str:
    """With the marks of the client and its options, and a sealed part of any length."""
    return _written(_VERSION + _plain(token)[1 : 1 + _HINTS] + rubbish(rng, 49_000))


_DAMAGES: dict[str, Callable[[random.Random, str], str]] = {
    change.__name__.strip("_").replace("_", " "): change
    for change in (_cut, _bit, _bytes, _characters, _marks, _long, _spaced, _made_up)
}
