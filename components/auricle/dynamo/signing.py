"""Signs messages between processes: proof that the sender has the deployment's secret.

A signed message is a header, a 16-byte MAC, and the message as msgpack. The MAC (AES-256-GMAC)
covers the receiver's name, the header and the whole message, so a process of the deployment wrote
tenant, session and content, for this receiver. It takes 7 µs for a chunk of audio (20 kB), several
times less than HMAC-SHA256 or BLAKE2b. The header has the sender and a number, by which repeated
messages are refused, and the time, by which old ones are. On one machine it is the time since the
machine started: all processes read it from the same clock, which cannot be set and continues
while the machine is suspended. Between machines it is Unix time.

Header, 25 bytes, big-endian: version of the wire u8 · sender 8s · number u32 · sent at, in
milliseconds, u64 · 4 bytes zero. It is the same in all versions of the wire.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from auricle.config.settings import CommonSettings
from auricle.core.errors import OtherWireVersion, UntrustedCaller
from auricle.dynamo.secrets import Secrets
from auricle.protocol import OLDEST_WIRE, WIRE

# Messages of one sender to one receiver overtake each other by fewer than these.
_WINDOW = 4096
_MASK = (1 << _WINDOW) - 1


@dataclass
class _Sender:
    highest: int = -1
    seen: int = 0  # bit n: the message `highest - n` has been seen
    last_seen: float = 0.0


class ReplayGuard:
    """The message numbers seen of each sender; a sender numbers its messages upwards.

    A sender without messages for `forget_seconds` is forgotten, so messages must be too old to be
    accepted by then. No I/O; time is an argument. Not thread-safe.
    """

    def __init__(self, forget_seconds: float) -> None:
        self._forget = forget_seconds
        self._senders: dict[bytes, _Sender] = {}

    def __len__(self) -> int:
        return len(self._senders)

    def is_new(self, sender: bytes, number: int, now: float) -> bool:
        """Return whether the message is the first with this number; `now` is in seconds.

        A message that 4,095 later ones have overtaken counts as seen.
        """
        known = self._senders.get(sender)
        if known is None:
            known = self._remember(sender, now)
        known.last_seen = now
        behind = known.highest - number
        if behind < 0:
            known.seen = ((known.seen << min(-behind, _WINDOW)) | 1) & _MASK
            known.highest = number
            return True
        if behind >= _WINDOW or known.seen >> behind & 1:
            return False
        known.seen |= 1 << behind
        return True

    def _remember(self, sender: bytes, now: float) -> _Sender:
        gone = [name for name, one in self._senders.items() if one.last_seen < now - self._forget]
        for name in gone:
            del self._senders[name]
        return self._senders.setdefault(sender, _Sender())


_HEADER = struct.Struct(">B8sIQ4x")
_MAC_BYTES = 16
_START = _HEADER.size + _MAC_BYTES
_NO_MAC = bytes(_MAC_BYTES)
_LAST_NUMBER = 2**32 - 1
# The maximum age of a message, and difference of hosts' clocks.
LIFETIME_SECONDS = 60.0


def machine_clock() -> float:
    """Return the seconds since this machine started, the same in all its processes."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def clock_of(settings: CommonSettings) -> Callable[[], float]:
    """Return the clock that all processes of the deployment share."""
    return machine_clock if settings.discovery == "file" else time.time


class Signer:
    """Seals this process's messages to one endpoint or topic. Not thread-safe."""

    def __init__(self, secrets: Secrets, clock: Callable[[], float] = machine_clock) -> None:
        self._secrets = secrets
        self._clock = clock
        self._begin()

    def _begin(self) -> None:
        # With the number it is GMAC's nonce, which must not repeat under one key.
        self._sender = os.urandom(8)
        self._number = 0

    def seal(self, message: bytes, receiver: str) -> bytes:
        """Return the sealed message; only `receiver` will accept it."""
        if self._number > _LAST_NUMBER:
            self._begin()
        sent = int(self._clock() * 1000)
        header = _HEADER.pack(WIRE, self._sender, self._number, sent)
        self._number += 1
        mac = _NO_MAC
        if keys := self._secrets.keys:
            mac = _cipher(keys[0]).encrypt(header[1:13], b"", _covered(receiver, header, message))
        return b"".join((header, mac, message))


class Verifier:
    """Opens messages to the receiver `receiver`, each once. Not thread-safe."""

    def __init__(
        self,
        secrets: Secrets,
        receiver: str,
        clock: Callable[[], float] = machine_clock,
        *,
        any_wire: bool = False,
    ) -> None:
        """With `any_wire` messages of all versions of the wire are accepted."""
        self._secrets = secrets
        self._receiver = receiver
        self._clock = clock
        self._any_wire = any_wire
        self._guard = ReplayGuard(2 * LIFETIME_SECONDS)

    def open(self, sealed: bytes) -> bytes:
        """Return the message.

        Raises UntrustedCaller if it was not sealed with one of the secrets for this receiver, is
        older than 60 s, or was opened before, and OtherWireVersion if its version is not accepted.
        """
        if len(sealed) < _START:
            raise UntrustedCaller("malformed", "the message is not sealed")
        header, message = sealed[: _HEADER.size], sealed[_START:]
        if keys := self._secrets.keys:
            self._check_mac(keys, header, sealed[_HEADER.size : _START], message)
        wire, sender, number, sent = _HEADER.unpack(header)
        if not (self._any_wire or OLDEST_WIRE <= wire <= WIRE):
            raise OtherWireVersion(
                f"the request has version {wire} of the wire; versions {OLDEST_WIRE} to {WIRE} "
                "are accepted here"
            )
        now = self._clock()
        if abs(now - sent / 1000) > LIFETIME_SECONDS:
            raise UntrustedCaller("expired", "the message is too old, or clocks differ by a minute")
        if keys and not self._guard.is_new(sender, number, now):
            raise UntrustedCaller("repeated", "the message was received before")
        return message

    def _check_mac(
        self, keys: tuple[bytes, ...], header: bytes, mac: bytes, message: bytes
    ) -> None:
        covered = _covered(self._receiver, header, message)
        for key in keys:
            try:
                _cipher(key).decrypt(header[1:13], mac, covered)
            except InvalidTag:
                continue
            return
        raise UntrustedCaller("mac", "the message was not sealed with this deployment's secret")


def _covered(receiver: str, header: bytes, message: bytes) -> bytes:
    name = receiver.encode()
    return b"".join((len(name).to_bytes(4, "big"), name, header, message))


@lru_cache(maxsize=16)
def _cipher(key: bytes) -> AESGCM:
    return AESGCM(key)


# Tokens: data that clients return later, and that only this deployment can read.
#
# A token is a salt of 16 bytes, a number of 12 bytes, and the content under AES-256-GCM with a key
# derived (HKDF-SHA256) from the deployment's secret, the salt and the tokens' purpose. Every
# process has a salt of its own and counts its tokens, so no number occurs twice under one key.

_SALT_BYTES, _NUMBER_BYTES, _TAG_BYTES = 16, 12, 16
_TOKENS_START = _SALT_BYTES + _NUMBER_BYTES


class Tokens:
    """Seals and opens the tokens of one purpose. Not thread-safe."""

    def __init__(self, secrets: Secrets | None, purpose: str) -> None:
        """Without secrets the key is this process's own: no other process can open its tokens."""
        self._secrets = secrets
        self._purpose = purpose.encode()
        self._own = (os.urandom(32),)
        self._salt = os.urandom(_SALT_BYTES)
        self._number = 0
        self._sealing: tuple[bytes, AESGCM] | None = None  # the secret's key, and the cipher

    def seal(self, content: bytes, bound: bytes) -> bytes:
        """Return a token of `content`, which opens together with the same `bound` only."""
        secret = self._keys[0]
        if self._sealing is None or self._sealing[0] != secret:
            self._sealing = (secret, self._cipher(secret, self._salt))
        number = self._number.to_bytes(_NUMBER_BYTES, "big")
        self._number += 1
        return self._salt + number + self._sealing[1].encrypt(number, content, bound)

    def open(self, token: bytes, bound: bytes) -> bytes | None:
        """Return the content; None if no process of this deployment sealed it with `bound`."""
        if len(token) < _TOKENS_START + _TAG_BYTES:
            return None
        salt, number = token[:_SALT_BYTES], token[_SALT_BYTES:_TOKENS_START]
        for secret in self._keys:
            try:
                return self._cipher(secret, salt).decrypt(number, token[_TOKENS_START:], bound)
            except InvalidTag:
                continue
        return None

    @property
    def _keys(self) -> tuple[bytes, ...]:
        return (() if self._secrets is None else self._secrets.keys) or self._own

    def _cipher(self, secret: bytes, salt: bytes) -> AESGCM:
        return AESGCM(HKDF(SHA256(), 32, salt, self._purpose).derive(secret))
