"""API keys: one client each, with limits, scopes and an expiry; finds whose key a secret is.

Only SHA-256 digests are stored. Keys have 256 random bits, so a digest cannot be reversed by
guessing: a slow password hash, made for words that people choose, would add latency to every
request and a way to exhaust the CPU, but no safety.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Literal

import yaml
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, field_serializer

from auricle.core.errors import AuricleError, Forbidden, Unauthorized
from auricle.core.limits import API_KEY
from auricle.core.sanitize import KEY_PREFIX

Scope = Literal["live", "recordings", "operations"]
DEFAULT_TENANT = "default"
Priority = Literal["low", "normal", "high"]
_RANKS: dict[Priority, int] = {"low": -1, "normal": 0, "high": 1}
_CLIENT_SCOPES: frozenset[Scope] = frozenset({"live", "recordings"})


class ApiKey(BaseModel):
    """One client and its limits; None means no limit.

    `name` is its tenant. Tenants share neither cached embeddings nor KV. `sha256` is the hex
    digest of the key, which is refused from the time `expires` on.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    enabled: bool = True
    expires: AwareDatetime | None = None
    scopes: frozenset[Scope] = Field(default=_CLIENT_SCOPES, min_length=1)
    max_sessions: int | None = Field(
        default=None, ge=1, description="live sessions and recordings at once, at all frontends"
    )
    audio_minutes_per_minute: float | None = Field(default=None, gt=0)
    max_request_bytes: int | None = Field(default=None, ge=1)
    priority: Priority = "normal"

    @property
    def rank(self) -> int:
        """Its priority as a number: of clients that were refused, the highest come first."""
        return _RANKS[self.priority]

    @field_serializer("scopes")
    def _in_order(self, scopes: frozenset[Scope]) -> list[str]:
        return sorted(scopes)

    def refusal(self, scope: Scope | None, now: datetime) -> AuricleError | None:
        """Return why the key may not be used for `scope` (None for what any key may); or None."""
        if not self.enabled:
            return Forbidden("this API key is switched off")
        if self.expires is not None and now >= self.expires:
            return Unauthorized("this API key has expired")
        if scope is not None and scope not in self.scopes:
            known = ", ".join(sorted(self.scopes))
            return Forbidden(f"this API key is not for {scope}; its scopes: {known}")
        return None


ANYONE = ApiKey(name=DEFAULT_TENANT, sha256="0" * 64)


def utc_now() -> datetime:
    """Return the time by which keys expire."""
    return datetime.now(UTC)


class KeyRing:
    """The keys of this frontend. If `keys` is None, every request is of the tenant `default`."""

    def __init__(
        self, keys: Sequence[ApiKey] | None, now: Callable[[], datetime] = utc_now
    ) -> None:
        self._keys = keys
        self._now = now

    @property
    def needed(self) -> bool:
        return self._keys is not None

    def find(self, secret: str | None, scope: Scope | None = None) -> ApiKey:
        """Return the entry of the key `secret`, which must be usable for `scope`.

        Raises Unauthorized if it is missing, unknown or expired, Forbidden if its entry is
        disabled or lacks the scope.
        """
        if self._keys is None:
            return ANYONE
        if not secret:
            raise Unauthorized("no API key; send it as 'Authorization: Bearer KEY'")
        if len(secret) > API_KEY:
            raise Unauthorized(f"an API key has at most {API_KEY} characters, not {len(secret)}")
        digest = hashlib.sha256(secret.encode()).hexdigest()
        # Every entry is compared in constant time, so that the timing reveals nothing.
        found = [key for key in self._keys if hmac.compare_digest(key.sha256, digest)]
        if not found:
            raise Unauthorized("this API key is not known here")
        if (refusal := found[0].refusal(scope, self._now())) is not None:
            raise refusal
        return found[0]

    def named(self, name: str | None, scope: Scope) -> ApiKey:
        """Return the entry called `name`, for clients whose protocol has no keys.

        Raises Unauthorized if there is none or it has expired, Forbidden as `find` does.
        """
        if self._keys is None:
            return ANYONE
        found = self.entry(name)
        if found is None:
            raise Unauthorized("there is no API key for clients that cannot send one")
        if (refusal := found.refusal(scope, self._now())) is not None:
            raise refusal
        return found

    def entry(self, name: str | None) -> ApiKey | None:
        """Return the entry called `name`, disabled or expired or not; None if there is none."""
        return next((key for key in self._keys or () if key.name == name), None)

    @property
    def rated(self) -> bool:
        """Whether any key has an audio rate."""
        return any(key.audio_minutes_per_minute is not None for key in self._keys or ())

    def has_other(self, key: ApiKey, scope: Scope) -> bool:
        """Whether another tenant's key may be used for `scope` now."""
        now = self._now()
        return any(k.name != key.name and not k.refusal(scope, now) for k in self._keys or ())

    def current(self, key: ApiKey) -> ApiKey | None:
        """Return the entry that `key` has now, under the same name; None if it was withdrawn."""
        if self._keys is None:
            return key
        same = (k for k in self._keys if (k.name, k.sha256) == (key.name, key.sha256))
        return next(same, None)

    def replace(self, keys: Sequence[ApiKey]) -> None:
        self._keys = keys


def new_key(
    name: str, expires: str | None = None, scopes: Iterable[str] = _CLIENT_SCOPES
) -> tuple[str, ApiKey]:
    """Return a new random key, and its entry. The key itself is stored nowhere.

    `expires` is a time in ISO 8601. Raises pydantic's ValidationError, which names the argument.
    """
    secret = KEY_PREFIX + secrets.token_urlsafe(32)
    digest = hashlib.sha256(secret.encode()).hexdigest()
    fields = {"name": name, "sha256": digest, "expires": expires, "scopes": list(scopes)}
    return secret, ApiKey.model_validate(fields)


def key_file(entry: ApiKey, *, first: bool = True) -> str:
    """Return the YAML of a keys file with this entry; if not `first`, of the entry alone."""
    plain = entry.model_dump(mode="json", exclude_defaults=True)
    entries = yaml.safe_dump([plain], sort_keys=False)
    return f"keys:\n{entries}" if first else str(entries)
