"""The disk space of uploads: bounded in all and for each client, and shared fairly."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from pydantic import ValidationError

from auricle.config.settings import FrontendSettings
from auricle.core.errors import RateLimited, StorageFull
from auricle.frontend.transport.stored_bytes import StoredBytes, StoredUpload

pytestmark = pytest.mark.unit


class Disk:
    """A disk with room for 100 bytes, and the uploads that were ended for others."""

    def __init__(self) -> None:
        self.stored = StoredBytes(100)
        self.ended: list[str] = []
        self._uploads = ExitStack()

    def upload(self, name: str, size: int = 0) -> StoredUpload:
        """An upload in progress of the client whose name is the first letter."""
        upload = self._uploads.enter_context(self.stored.upload(name[0]))
        upload.on_preempted = lambda: self.ended.append(name)
        upload.add(size)
        return upload

    def close(self) -> None:
        self._uploads.close()


def test_a_client_may_store_half_and_all_clients_as_much_as_there_is() -> None:
    disk = Disk()
    first = disk.upload("a1", 30)
    disk.upload("a2", 20)
    with pytest.raises(RateLimited, match="would have 51 bytes together, at most 50 are allowed"):
        first.add(1)
    disk.upload("b1", 50)
    third = disk.upload("c1")
    disk.upload("c2", 0)
    assert disk.stored.total == 100
    third.add(1)  # from a client that stores more
    assert disk.ended == ["b1"]
    disk.close()
    assert disk.stored.total == 0
    assert not disk.stored._clients
    assert not disk.stored._sizes


def test_the_largest_upload_in_progress_of_who_stores_most_is_ended() -> None:
    disk = Disk()
    disk.upload("a1", 10)
    lost = disk.upload("a2", 25)
    disk.upload("a3", 12)
    disk.upload("b1", 43)
    disk.upload("c1", 10)
    disk.upload("d1", 25)
    assert disk.ended == ["a2"]
    lost.add(1_000)  # what arrives before it ends
    assert disk.stored.total == 100


def test_complete_uploads_are_kept_and_equals_take_nothing_from_each_other() -> None:
    disk = Disk()
    for name in ("a1", "b1"):
        disk.upload(name, 50).on_preempted = None
    with pytest.raises(StorageFull, match="has no room"):
        disk.upload("c1", 1)
    disk = Disk()
    for name in ("a1", "b1", "c1", "d1"):
        disk.upload(name, 25)
    with pytest.raises(StorageFull):
        disk.upload("e1", 25)
    assert not disk.ended
    disk.upload("e2", 24)
    assert len(disk.ended) == 1


def test_the_largest_upload_must_fit_into_one_clients_half() -> None:
    with pytest.raises(ValidationError, match=r"at least twice max_upload_bytes \(5000\)"):
        FrontendSettings(max_upload_bytes=5_000, max_stored_upload_bytes=9_999)
    FrontendSettings(max_upload_bytes=5_000, max_stored_upload_bytes=10_000)
