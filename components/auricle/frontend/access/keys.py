"""API keys: where they come from, and which client a request's key belongs to.

Only SHA-256 digests are kept; the keys themselves are random, so a digest cannot be
turned back by guessing (a slow password hash would only slow every request down).
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from auricle.errors import Forbidden, SettingsError, Unauthorized

ENVIRONMENT = "AURICLE_API_KEYS"
DEFAULT_TENANT = "default"
_PREFIX = "auricle-"


class ApiKey(BaseModel):
    """One client. `name` is its tenant: caches and metrics of tenants are apart."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    enabled: bool = True
    max_sessions: int | None = Field(
        default=None, ge=1, description="live sessions and recordings at once"
    )
    audio_minutes_per_minute: float | None = Field(default=None, gt=0)
    max_request_bytes: int | None = Field(default=None, ge=1)


class _KeyFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    keys: tuple[ApiKey, ...]


ANYONE = ApiKey(name=DEFAULT_TENANT, sha256="0" * 64)


class KeyRing:
    """All keys this frontend knows; with none configured everybody is `default`."""

    def __init__(self, keys: Sequence[ApiKey] | None) -> None:
        self._keys = keys

    def find(self, secret: str | None) -> ApiKey:
        """The key's client. Raises Unauthorized or Forbidden."""
        if self._keys is None:
            return ANYONE
        if not secret:
            raise Unauthorized("no API key; send it as 'Authorization: Bearer KEY'")
        digest = hashlib.sha256(secret.encode()).hexdigest()
        # Every entry is compared, in constant time: how long it takes says nothing.
        found = [key for key in self._keys if hmac.compare_digest(key.sha256, digest)]
        if not found:
            raise Unauthorized("this API key is not known here")
        if not found[0].enabled:
            raise Forbidden(f"the API key of {found[0].name} is switched off")
        return found[0]


def load_keys(file: Path | None, environment: str | None = None) -> KeyRing:
    """From the YAML file, or from `NAME=SHA256,…` as the environment variable has it.

    Raises SettingsError naming what is wrong.
    """
    if environment is None:
        environment = os.environ.get(ENVIRONMENT, "")
    try:
        if file is not None and environment:
            raise SettingsError(f"Frontend.api_keys_file and {ENVIRONMENT} are both set; use one")
        if file is not None:
            return KeyRing(_unique(_KeyFile.model_validate(_read(file)).keys, str(file)))
        if environment:
            return KeyRing(_unique(_from_environment(environment), ENVIRONMENT))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SettingsError(f"{file or ENVIRONMENT}: {where}: {first['msg']}") from None
    return KeyRing(None)


def new_key(name: str) -> tuple[str, ApiKey]:
    """A random key, and the entry that admits it. The key itself is kept nowhere."""
    secret = _PREFIX + secrets.token_urlsafe(32)
    return secret, ApiKey(name=name, sha256=hashlib.sha256(secret.encode()).hexdigest())


def _read(file: Path) -> object:
    try:
        return yaml.safe_load(file.read_text()) or {}
    except (OSError, yaml.YAMLError) as error:
        raise SettingsError(f"Frontend.api_keys_file: {file} cannot be read: {error}") from None


def _from_environment(text: str) -> list[ApiKey]:
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    pairs = [entry.partition("=") for entry in entries]
    return [ApiKey(name=name.strip(), sha256=digest.strip()) for name, _, digest in pairs]


def _unique(keys: Sequence[ApiKey], source: str) -> Sequence[ApiKey]:
    names = [key.name for key in keys]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SettingsError(f"{source}: more than one key is called {', '.join(twice)}")
    return keys
