"""Resumed sessions with changed, invented, foreign or old tokens, other positions or options."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from benchmarks.hostile.inputs import Resumption
from benchmarks.hostile.strategies import values as v
from benchmarks.hostile.strategies.messages import STREAM
from benchmarks.hostile.strategies.values import Draw, chance, pick

START: dict[str, Any] = {"type": "start", "sample_rate": 16_000, "language": "English"}
# Tokens of a session with text, of one whose audio is all decoded, of a `ready`, of one that may
# have expired, and of another client.
SPOKEN, OPEN, FRESH, OLDEST, ANOTHERS = "spoken", "open", "fresh", "oldest", "another's"
# The first message of the token's session.
STARTS: dict[str, dict[str, Any]] = {
    **dict.fromkeys((SPOKEN, FRESH, OLDEST, ANOTHERS), START),
    OPEN: START | {"endpointing": {"enabled": False}, "chunk_ms": 160},
}
_LONGEST, _HINTS = 65_536, slice(1, 17)  # of a token, and of the client and options in it
# Placeholders in JSON texts for the token, its position, and positions before and after it.
_VALID = {"token": "TOKEN", "from_sample": "FROM"}
_RESUMES = v.weighted(
    (3, v.bent(st.just(_VALID)).map(v.as_json)),
    (
        2,
        st.sampled_from(("EARLIER", "LATER")).map(
            lambda at: v.as_json(_VALID | {"from_sample": at})
        ),
    ),
    (1, st.sampled_from((b'"TOKEN"', b'"FROM"', b'{"token": ' + b"[" * 30_000))),
)
_OTHER_STARTS: tuple[dict[str, Any], ...] = (
    *({"language": "english"}, {"language": None}, {"context": "Ada"}, {"chunk_ms": 320}),
    *({"chunk_ms": 640}, {"chunk_ms": 0}, {"partials": False}, {"encoding": "pcm_mulaw"}),
    *({"encoding": "log_mel"}, {"sample_rate": 8_000}, {"sample_rate": 16_001}, {"model": "demo"}),
    *({"endpointing": {"enabled": False}}, {"endpointing": {"threshold": 0.05}}),
    *({"tenant": "witness"}, {"session": "sess_1"}),
)
_OTHER_PATHS = (
    *(STREAM, f"{STREAM}?resume=false", f"{STREAM}?resume=TRUE", f"{STREAM}?resume=1"),
    *(f"{STREAM}?resume=", f"{STREAM}?resume=true&resume=x", f"{STREAM}?RESUME=true"),
    *("/v1/realtime?resume=true", "/v1/realtime"),
)


def first_message(how: Resumption, token: str, from_sample: int) -> bytes:
    """The first message, given the server's last token and position."""
    start = json.dumps(STARTS[how.token] | how.start)
    if not how.resume:
        return start.encode()
    if how.damage:
        token = _damaged(random.Random(how.damage), token)
    resume = how.resume.replace('"TOKEN"', json.dumps(token))
    for name, position in (("EARLIER", -1), ("FROM", 0), ("LATER", 160)):
        resume = resume.replace(f'"{name}"', str(from_sample + position))
    return f'{start[:-1]}, "resume": {resume}}}'.encode()


def _damaged(rng: random.Random, token: str) -> str:
    """Another token: cut, longer, with other characters, hints or bits, or with a made-up seal."""
    data = bytearray(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    what, at = rng.randrange(8), rng.randrange(len(token))
    if what == 0:
        return token[: rng.choice((0, 1, 3, 22, 23, at))]
    if what == 1:
        return (token * 4_000)[: rng.choice((_LONGEST - 1, _LONGEST, _LONGEST + 1, 900_000))]
    if what < 4:
        odd = rng.choice((" ", "\n", "=", "\0", "é", "+", "\u202e", token[:40]))
        return token[:at] + odd + token[at + rng.randrange(3) :]
    if what == 4:
        data[_HINTS] = rng.randbytes(16)
    elif what == 5:
        data[_HINTS.stop :] = rng.randbytes(rng.randrange(49_000))
    else:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@st.composite
def resumptions(draw: Draw) -> Resumption:
    """A resumed session with one thing wrong, or with other audio than before."""
    sizes = v.noise(0, 1, 2, 199, 402, 3_199, 3_200, 16_000)  # more would be load
    audio = tuple(draw(sizes) for _ in range(pick(draw, (0, 0, 1, 3))))
    token = pick(draw, (SPOKEN, SPOKEN, OPEN, FRESH))
    good = Resumption(token, packets=audio, ends=chance(draw, 80))
    changes: tuple[dict[str, Any], ...] = (
        *[{"damage": draw(st.integers(1, 2**32))}] * 4,
        *[{"resume": draw(_RESUMES).decode(errors="replace"), "token": SPOKEN}] * 4,
        *[{"token": SPOKEN, "start": pick(draw, _OTHER_STARTS)}] * 2,
        *({"token": ANOTHERS}, {"resume": ""}),
        {"token": OLDEST, "refused": False},
        {"at_once": draw(st.integers(2, 4)), "refused": False},
        {"path": pick(draw, _OTHER_PATHS), "refused": False},
        *[{"refused": False}] * 2,
    )
    return replace(good, **pick(draw, changes))
