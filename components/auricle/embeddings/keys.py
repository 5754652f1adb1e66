"""Keys of windows and blocks: 32 hex digits of their content, then 16 of their tenant.

Every cache of embeddings is looked up by key, and a slot's header holds it. Workers accept only
keys that end in the mark of the request's tenant: no request can name what is another tenant's.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache

from auricle.errors import BadRequest

CONTENT_BYTES, _MARK_BYTES = 16, 8
KEY_BYTES = CONTENT_BYTES + _MARK_BYTES
_FORM = re.compile(f"[0-9a-f]{{{2 * KEY_BYTES}}}")
_SHOWN = 64


@lru_cache(maxsize=4096)
def tenant_mark(tenant: str) -> str:
    """Return the end of every key of this tenant, 16 hex digits."""
    return hashlib.blake2b(
        tenant.encode(), digest_size=_MARK_BYTES, person=b"auricle tenant"
    ).hexdigest()


def check_keys(keys: Iterable[str], tenant: str) -> None:
    """Raise BadRequest unless all of `keys` have the form of a key and are of this tenant."""
    mark = tenant_mark(tenant)
    for key in keys:
        if not _FORM.fullmatch(key):
            raise BadRequest(f"key {key[:_SHOWN]!r} is not {2 * KEY_BYTES} hex digits")
        if not key.endswith(mark):
            raise BadRequest(f"key {key} is not one of the request's tenant")
