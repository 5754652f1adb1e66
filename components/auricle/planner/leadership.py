"""Leader election: only the planner that holds the lease may scale pools."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Protocol
from urllib.parse import urlsplit

from auricle.core.errors import SettingsError, WorkerUnavailable

# Another planner may take a lease that has not been renewed for this time.
LEASE_SECONDS = 15
RENEW_SECONDS = 4.0
# A holder stops acting earlier than others may take its lease: their clocks may run faster.
_BELIEVED_SECONDS = 10.0


class LeaderLease(Protocol):
    """The one lease that all planners of a deployment compete for."""

    async def renewed(self) -> bool:
        """Acquire the lease if it is free or renew it if it is ours; return whether it is ours.

        Raises WorkerUnavailable if the service that keeps the lease cannot be reached.
        """
        ...

    async def release(self) -> None:
        """Give the lease up, so that another planner can acquire it at once."""
        ...


class Leadership:
    """Tells whether this planner may act now. Use it on one event loop."""

    def __init__(self, lease: LeaderLease, clock: Callable[[], float] = time.monotonic) -> None:
        self._lease = lease
        self._clock = clock
        self._until = float("-inf")

    @property
    def held(self) -> bool:
        """Whether the lease was renewed so recently that no other planner can hold it."""
        return self._clock() < self._until

    async def renew(self) -> None:
        """Acquire or renew the lease; call this every `RENEW_SECONDS`.

        Raises WorkerUnavailable. A lease held then stays held until 10 s after it was renewed.
        """
        asked_at = self._clock()
        ours = await self._lease.renewed()
        self._until = asked_at + _BELIEVED_SECONDS if ours else float("-inf")

    async def release(self) -> None:
        """Give the lease up, as this planner stops."""
        self._until = float("-inf")
        await self._lease.release()


# The lease where discovery is a directory of this machine: a lock on a file in it.


class FileLease:
    """A file lock, which the kernel releases when its holder dies."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "planner.lock"
        self._file: IO[str] | None = None

    async def renewed(self) -> bool:
        """Acquire the lock if it is free. Does not block."""
        if self._file is not None:
            return True
        file = self._path.open("a")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        if not self._is_there(file):  # its holder removed the file before we had the lock
            file.close()
            return False
        self._file = file
        return True

    async def release(self) -> None:
        """Remove the file and release the lock."""
        if self._file is not None:
            self._path.unlink(missing_ok=True)
            self._file.close()
            self._file = None

    def _is_there(self, file: IO[str]) -> bool:
        try:
            return self._path.stat().st_ino == os.fstat(file.fileno()).st_ino
        except FileNotFoundError:
            return False


# The lease where discovery is etcd: a key bound to an etcd lease.

_PORT = 2379
_CALL_SECONDS = 3


class EtcdLease:
    """The planner that creates the key is the leader; etcd deletes it if it is not refreshed."""

    def __init__(self, endpoints: str, namespace: str) -> None:
        """Uses the first of `endpoints`, which are written as Dynamo expects them.

        Raises SettingsError if that has no host.
        """
        first = endpoints.split(",", maxsplit=1)[0].strip()
        url = urlsplit(first if "//" in first else f"//{first}")
        if not url.hostname:
            raise SettingsError(f"Common.etcd_endpoints is {endpoints!r}: no host in it")
        self._host, self._port = url.hostname, url.port or _PORT
        self._key = f"auricle/{namespace}/planner".encode()
        self._name = uuid.uuid4().hex.encode()
        self._client: Any = None
        self._lease: Any = None

    async def renewed(self) -> bool:
        """Acquire or refresh the key. Raises WorkerUnavailable if etcd does not answer in time."""
        import aetcd

        try:
            client = await self._connected()
            if self._lease is not None and (await self._lease.refresh()).TTL > 0:
                # The lease is alive; check that the key did not expire in between.
                found = await client.get(self._key)
                if found is not None and found.value == self._name:
                    return True
            self._lease = await client.lease(LEASE_SECONDS)
            free = client.transactions.create(self._key) == 0
            put = client.transactions.put(self._key, self._name, self._lease)
            ours, _ = await client.transaction(compare=[free], success=[put], failure=[])
            if not ours:
                await self._lease.revoke()
                self._lease = None
            return bool(ours)
        except (aetcd.ClientError, OSError) as error:
            raise WorkerUnavailable(f"etcd at {self._host}:{self._port}: {error!r}") from None

    async def release(self) -> None:
        """Revoke the lease, which deletes the key; it expires by itself if etcd is unreachable."""
        import aetcd

        with contextlib.suppress(aetcd.ClientError, OSError):
            if self._lease is not None:
                await self._lease.revoke()
            if self._client is not None:
                await self._client.close()
        self._lease = self._client = None

    async def _connected(self) -> Any:
        import aetcd

        if self._client is None:
            self._client = aetcd.Client(self._host, self._port, timeout=_CALL_SECONDS)
            await self._client.connect()
        return self._client
