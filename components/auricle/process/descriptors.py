"""The limit of file descriptors (`ulimit -n`) of this process."""

from __future__ import annotations

import resource

# Beyond it some libraries make tables of that size; nobody has so many connections.
_MOST = 1 << 20
# Of a frontend, for everything but clients: discovery, processors, decoding processes, files.
_OWN = 256
# A recording has its connection and its file.
_PER_CONNECTION = 2


def raise_limit() -> int:
    """Raise the soft limit to the hard one, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft if soft != resource.RLIM_INFINITY else _MOST


def connections_within_limit(wanted: int) -> int:
    """Return how many connections there can be, at most `wanted`.

    More would end in errors everywhere; so many more clients are refused with 503.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, (soft - _OWN) // _PER_CONNECTION))
