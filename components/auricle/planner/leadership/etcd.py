"""The lease where discovery is etcd: a key bound to an etcd lease."""

from __future__ import annotations

import contextlib
import uuid
from typing import Any
from urllib.parse import urlsplit

from auricle.errors import SettingsError, WorkerUnavailable
from auricle.planner.leadership.base import LEASE_SECONDS

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
