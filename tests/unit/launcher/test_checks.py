"""A taken port or an unwritable directory is detected before any process starts."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from auricle.config.settings import CommonSettings, FrontendSettings, PdWorkerSettings
from auricle.core.errors import SettingsError
from auricle.dynamo.inotify import explained
from auricle.dynamo.network import internal_environment
from auricle.launcher.checks import check_discovery, check_inotify, check_ports

pytestmark = pytest.mark.unit


@pytest.fixture
def taken() -> Iterator[int]:
    # Below 32768, as Dynamo requires of a system port, and distinct from ports of other tests.
    with socket.socket() as listener:
        for port in range(19_000, 20_000, 2):
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            listener.listen()
            yield port
            return


@pytest.mark.parametrize("key", ["port", "grpc_port"])
def test_a_taken_port_is_named_with_its_setting(taken: int, key: str) -> None:
    said = rf"cannot listen on 127\.0\.0\.1:{taken}: Address already in use; .*Frontend\.{key}"
    with pytest.raises(SettingsError, match=said):
        check_ports({"Frontend": FrontendSettings(**{"port": 0, key: taken})})


def test_the_system_port_of_every_replica_is_looked_at(taken: int) -> None:
    workers = PdWorkerSettings(system_port=taken - 1, replicas=2)
    with pytest.raises(SettingsError, match=rf":{taken}: .*PdWorker\.system_port"):
        check_ports({"PdWorker": workers})
    check_ports({"PdWorker": PdWorkerSettings(system_port=taken, replicas=0)})


def test_ports_that_are_free_or_chosen_later_are_no_error() -> None:
    check_ports({"Frontend": FrontendSettings(port=0), "PdWorker": PdWorkerSettings()})


def few_instances(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    left = [os.open(os.devnull, os.O_RDONLY) for _ in range(free)]

    def make() -> int:
        if not left:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return left.pop()

    monkeypatch.setattr("auricle.dynamo.inotify._make", make)


GRAPH = {"Frontend": FrontendSettings(replicas=2), "PdWorker": PdWorkerSettings(replicas=2)}


def test_too_few_inotify_instances_are_named_with_their_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few_instances(monkeypatch, 23)
    limit = Path("/proc/sys/fs/inotify/max_user_instances").read_text().strip()
    said = (
        rf"fs\.inotify\.max_user_instances is {limit}, 23 of them are free, and about 24 are "
        r"needed; raise it: sysctl -w fs\.inotify\.max_user_instances=1024"
    )
    with pytest.raises(SettingsError, match=said):
        check_inotify(GRAPH)


def test_enough_inotify_instances_or_another_discovery_are_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few_instances(monkeypatch, 24)
    check_inotify(GRAPH)
    check_inotify({name: s.model_copy(update={"discovery": "etcd"}) for name, s in GRAPH.items()})


def test_dynamos_error_about_too_many_files_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    error = Exception("Internal filesystem error: Too many open files (os error 24)")
    few_instances(monkeypatch, 2)
    assert explained(error) is error  # another cause
    few_instances(monkeypatch, 1)
    assert "fs.inotify.max_user_instances" in str(explained(error))
    other = Exception("Unavailable")
    assert explained(other) is other


def test_a_discovery_directory_is_made_and_left_empty(tmp_path: Path) -> None:
    check_discovery(CommonSettings(discovery_path=tmp_path / "deep/discovery"))
    assert list((tmp_path / "deep/discovery").iterdir()) == []


def test_a_discovery_directory_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = r"file/discovery cannot be written: Not a directory; .*Common\.discovery_path"
    with pytest.raises(SettingsError, match=said):
        check_discovery(CommonSettings(discovery_path=tmp_path / "file/discovery"))


def test_a_discovery_directory_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        check_discovery(CommonSettings(discovery_path=tmp_path / "discovery"))
    finally:
        os.umask(before)
    assert (tmp_path / "discovery").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o755, 0o701, 0o770, 0o1777])
def test_a_directory_that_others_can_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    """Others may use it, so its permissions are not changed."""
    given = tmp_path / "discovery"
    given.mkdir()
    (given / "of another user").touch()
    given.chmod(mode)
    said = rf"open to other users \(mode {mode:o}, .*chmod 700 .*Common\.discovery_path"
    with pytest.raises(SettingsError, match=said):
        check_discovery(CommonSettings(discovery_path=given))
    assert given.stat().st_mode & 0o7777 == mode


@pytest.mark.parametrize("left", [None, "v1", ".events-lock"])
def test_an_own_discovery_directory_that_others_can_read_is_closed(
    tmp_path: Path, left: str | None
) -> None:
    """Earlier versions made it readable."""
    given = tmp_path / "discovery"
    given.mkdir()
    if left is not None:
        (given / left).touch()
    given.chmod(0o755)
    check_discovery(CommonSettings(discovery_path=given))
    assert given.stat().st_mode & 0o7777 == 0o700


def test_an_empty_directory_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    given = tmp_path / "discovery"
    given.mkdir()
    given.chmod(0o777)
    with pytest.raises(SettingsError, match="open to other users"):
        check_discovery(CommonSettings(discovery_path=given))


def test_a_directory_too_long_for_unix_sockets_is_refused(tmp_path: Path) -> None:
    given = tmp_path / ("x" * 100)
    with pytest.raises(SettingsError, match=r"set a shorter Common\.discovery_path"):
        check_discovery(CommonSettings(discovery_path=given))


@pytest.mark.parametrize(
    ("settings", "host", "device"),
    [
        ({}, "127.0.0.1", "lo"),
        ({"discovery": "etcd"}, None, None),
        ({"discovery": "kubernetes"}, None, None),
        ({"internal_host": "10.0.0.5"}, "10.0.0.5", None),
        ({"discovery": "etcd", "internal_host": "127.0.0.1"}, "127.0.0.1", "lo"),
    ],
)
def test_on_one_machine_processes_listen_for_each_other_on_loopback(
    settings: dict[str, str], host: str | None, device: str | None
) -> None:
    found = internal_environment(CommonSettings.model_validate(settings))
    assert found.get("DYN_TCP_RPC_HOST") == found.get("DYN_SYSTEM_HOST") == host
    assert found.get("UCX_NET_DEVICES") == device
