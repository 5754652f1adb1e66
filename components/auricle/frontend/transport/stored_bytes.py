"""The disk space of clients' uploads, shared fairly between clients. No I/O.

A client is a tenant if API keys are configured, otherwise an address: see `addresses.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from auricle.core.errors import RateLimited, StorageFull

_RETRY_SECONDS = 5.0


class StoredUpload:
    """The size of one upload on disk. While it arrives, it can lose its space to another client."""

    def __init__(self, stored: StoredBytes, client: str) -> None:
        self.client = client
        self.size = 0
        self.on_preempted: Callable[[], None] | None = None  # ends it; None once it is complete
        self._stored = stored

    def add(self, size: int) -> None:
        """Count `size` more bytes before they are stored.

        Raises RateLimited if the client stores too much, StorageFull if all clients do.
        """
        self._stored.add(self, size)


class StoredBytes:
    """At most `limit` bytes, of one client at most half of them.

    Beyond the limit a client gets the space of another one that stores more, whose largest upload
    in progress is ended. So however much some clients store, another one's upload fits.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self._clients: dict[str, dict[StoredUpload, None]] = {}
        self._sizes: Counter[str] = Counter()

    @contextmanager
    def upload(self, client: str) -> Iterator[StoredUpload]:
        """Count the bytes of one upload while the block runs."""
        upload = StoredUpload(self, client)
        self._clients.setdefault(client, {})[upload] = None
        try:
            yield upload
        finally:
            self._remove(upload)

    def add(self, upload: StoredUpload, size: int) -> None:
        """`StoredUpload.add` calls this."""
        if upload not in self._clients.get(upload.client, ()):
            return  # it has lost its space, and ends
        own, share = self._sizes[upload.client] + size, self.limit // 2
        if own > share:
            raise RateLimited(
                f"your uploads would have {own} bytes together, at most {share} are allowed; "
                "send fewer at a time",
                _RETRY_SECONDS,
            )
        while self.total + size > self.limit:
            largest = self._largest_of_another(own)
            if largest is None or largest.on_preempted is None:
                raise StorageFull("the server has no room for the upload; try again later")
            self._remove(largest)
            largest.on_preempted()
        upload.size += size
        self.total += size
        self._sizes[upload.client] = own

    def _largest_of_another(self, own: int) -> StoredUpload | None:
        """Return the largest upload in progress of the client that stores most, more than `own`."""
        arriving = [
            (self._sizes[client], upload.size, upload)
            for client, uploads in self._clients.items()
            for upload in uploads
            if upload.on_preempted is not None
        ]
        most, _, upload = max(arriving, key=lambda one: one[:2], default=(0, 0, None))
        return upload if most > own else None

    def _remove(self, upload: StoredUpload) -> None:
        uploads = self._clients.get(upload.client, {})
        if upload in uploads:
            del uploads[upload]
            self.total -= upload.size
            self._sizes[upload.client] -= upload.size
            if not uploads:
                del self._clients[upload.client], self._sizes[upload.client]
