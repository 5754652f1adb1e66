"""Makes a process's NIXL endpoint over its slab."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable

from auricle.embeddings.nixl import NixlEndpoint
from auricle.embeddings.slab import Slab


def endpoint_over(
    slab: Slab,
    role: str,
    *,
    on_notice: Callable[[bytes], None] | None = None,
    awaiting_notices: Callable[[], bool] = lambda: False,
) -> NixlEndpoint:
    """Return an endpoint that is not started yet; `role` is how its name begins.

    A restarted process is a new agent, so stale metadata cannot address its memory.
    """
    return NixlEndpoint(
        f"{role}-{os.getpid()}-{uuid.uuid4().hex[:8]}",
        slab.regions,
        on_notice=on_notice,
        awaiting_notices=awaiting_notices,
        enter_thread=slab.enter_thread,
    )
