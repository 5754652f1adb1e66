"""Tokens: what this deployment gives to clients, and only it can read when they bring it back.

A token is a salt of 16 bytes, a number of 12 bytes, and the content under AES-256-GCM with a key
derived (HKDF-SHA256) from the deployment's secret, the salt and the tokens' purpose. Every process
has a salt of its own and counts its tokens, so no number occurs twice under one key.
"""

from __future__ import annotations

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from auricle.runtime.secrets import Secrets

_SALT_BYTES, _NUMBER_BYTES, _TAG_BYTES = 16, 12, 16
_START = _SALT_BYTES + _NUMBER_BYTES


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
        if len(token) < _START + _TAG_BYTES:
            return None
        salt, number = token[:_SALT_BYTES], token[_SALT_BYTES:_START]
        for secret in self._keys:
            try:
                return self._cipher(secret, salt).decrypt(number, token[_START:], bound)
            except InvalidTag:
                continue
        return None

    @property
    def _keys(self) -> tuple[bytes, ...]:
        return (() if self._secrets is None else self._secrets.keys) or self._own

    def _cipher(self, secret: bytes, salt: bytes) -> AESGCM:
        return AESGCM(HKDF(SHA256(), 32, salt, self._purpose).derive(secret))
