"""Resume tokens: a session's state in its client's hands, for any frontend of the deployment.

A token is base64url without padding: a version byte, 8 bytes each that stand for the client and
for the options, which say why it is refused where it does not belong, and the state sealed by
`runtime.Tokens`, bound to those in full.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import time
from collections.abc import Callable

import msgspec

from auricle.frontend.doors.access.keys import ApiKey
from auricle.frontend.listening.endpointing import EndpointingOptions
from auricle.frontend.listening.point import client_sample
from auricle.frontend.stream.ledger import Told
from auricle.frontend.stream.protocol import Start
from auricle.frontend.stream.refusals import (
    ResumeExpired,
    ResumeForged,
    ResumeMalformed,
    ResumeOtherClient,
    ResumeOtherOptions,
    ResumePosition,
)
from auricle.messages.stream import Resume
from auricle.runtime import Tokens
from auricle.text_bounds import RESUME_TOKEN

PURPOSE = "auricle resume tokens 1"
_VERSION = b"\x01"
_HINT_BYTES = 8
_HEAD = 1 + 2 * _HINT_BYTES


class ResumeState(msgspec.Struct, frozen=True, array_like=True):
    """What a token holds: all of a session that a frontend cannot rebuild from `start` and audio.

    `expires` is Unix time. `session` is the name that the client knows. `endpointing` and
    `chunk_ms` are in effect since the session began, whatever other frontends' defaults are.
    """

    expires: float
    session: str
    chunk_ms: int
    endpointing: EndpointingOptions | None
    told: Told


class ResumeTokens:
    """Makes and reads the tokens of one frontend; those of other frontends are read as well."""

    def __init__(
        self,
        tokens: Tokens,
        seconds: float,
        model: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """A token is good for `seconds`; 0 if there are to be none. `model` is the served one."""
        self._tokens = tokens
        self.seconds = seconds
        self._model = model
        self._clock = clock
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(ResumeState).decode

    def binding(self, key: ApiKey, start: Start) -> tuple[bytes, bytes]:
        """Return what stands for the client, and for the options of its session."""
        client = hashlib.sha256(self._encode((key.name, key.sha256))).digest()
        options = msgspec.structs.replace(start, resume=None)
        return client, hashlib.sha256(self._encode((self._model, options))).digest()

    def issue(
        self,
        binding: tuple[bytes, bytes],
        rate: int,
        session: str,
        chunk_ms: int,
        endpointing: EndpointingOptions | None,
        told: Told,
    ) -> Resume:
        """Return what goes with a message to a client that sends at `rate` Hz."""
        expires = self._clock() + self.seconds
        state = self._encode(ResumeState(expires, session, chunk_ms, endpointing, told))
        head = _VERSION + b"".join(part[:_HINT_BYTES] for part in binding)
        sealed = self._tokens.seal(state, _VERSION + b"".join(binding))
        token = base64.urlsafe_b64encode(head + sealed).rstrip(b"=").decode()
        return Resume(token, client_sample(told.listening.sample, rate))

    def open(self, resume: Resume, binding: tuple[bytes, bytes], rate: int) -> ResumeState:
        """Return the state of the session to go on with.

        Raises an error of `refusals.py` unless the token was issued for the same `binding`, is
        not too old, and the client sends the audio from where it must.
        """
        token = _bytes(resume.token)
        sealed = self._tokens.open(token[_HEAD:], _VERSION + b"".join(binding))
        if sealed is None:
            client, options = token[1 : 1 + _HINT_BYTES], token[1 + _HINT_BYTES : _HEAD]
            if client != binding[0][:_HINT_BYTES]:
                raise ResumeOtherClient
            if options != binding[1][:_HINT_BYTES]:
                raise ResumeOtherOptions
            raise ResumeForged
        if token[1:_HEAD] != b"".join(part[:_HINT_BYTES] for part in binding):
            raise ResumeForged
        try:
            state = self._decode(sealed)
        except msgspec.DecodeError:  # of another version of auricle
            raise ResumeMalformed from None
        if self._clock() > state.expires:
            raise ResumeExpired(self.seconds)
        expected = client_sample(state.told.listening.sample, rate)
        if resume.from_sample != expected:
            raise ResumePosition(resume.from_sample, expected)
        return state

    def late(self, state: ResumeState) -> float:
        """Return for how many seconds the client of a token was not heard."""
        return max(0.0, self._clock() - (state.expires - self.seconds))


def _bytes(token: str) -> bytes:
    """Decode a token. Raises ResumeMalformed, also if another text stands for the same bytes."""
    if len(token) > RESUME_TOKEN or not token.isascii():
        raise ResumeMalformed
    try:
        found = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ResumeMalformed from None
    same = base64.urlsafe_b64encode(found).rstrip(b"=").decode() == token
    if not same or len(found) < _HEAD or found[:1] != _VERSION:
        raise ResumeMalformed
    return found
