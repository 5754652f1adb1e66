"""Runs a command in an image as Kubernetes would: `unshare … python entering.py ROOT … -- COMMAND`.

It is user 10001 without capabilities, the root is read-only, /tmp and /dev/shm are empty and in
memory, and its only network is its own loopback. check.py calls it in namespaces that unshare(1)
created.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import os
import signal
import socket
import struct
import subprocess
from pathlib import Path

USER = 10001
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38  # prctl(2)
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1  # netdevice(7)
_DEVICES = ("null", "zero", "full", "random", "urandom")


def mount(*arguments: object) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True, timeout=60)


def raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14x", b"lo", 0)
        name, flags = struct.unpack("16sH14x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", name, flags | _IFF_UP))


def prepare(root: Path, shown: list[tuple[Path, Path]]) -> None:
    """Mount a container's file systems, then make the rest read-only."""
    mount("--bind", root, root)
    mount("-t", "proc", "proc", root / "proc")
    mount("-t", "sysfs", "-o", "ro", "sysfs", root / "sys")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", root / "dev")
    for name in _DEVICES:
        (root / "dev" / name).touch()
        mount("--bind", f"/dev/{name}", root / "dev" / name)
    (root / "dev/shm").mkdir()
    for place in ("dev/shm", "tmp"):
        mount("-t", "tmpfs", "-o", "mode=1777,nosuid,nodev", "tmpfs", root / place)
    for source, target in shown:
        place = root / target.relative_to("/")
        place.mkdir(parents=True, exist_ok=True)
        mount("--bind", "-o", "ro", source, place)
    mount("-o", "remount,ro,bind", root)


def enter(root: Path, directory: str) -> None:
    """Change the root to the image and become its user, permanently."""
    os.chroot(root)
    os.chdir(directory)
    os.setgroups([])
    os.setgid(USER)
    os.setuid(USER)
    libc = ctypes.CDLL(None)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError("prctl(PR_SET_NO_NEW_PRIVS) failed")
    # No process outlives check.py. A change of user clears this flag, so it is set afterwards.
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError("prctl(PR_SET_PDEATHSIG) failed")


def main() -> None:
    parser = argparse.ArgumentParser(description="Runs a command in an image for check.py.")
    parser.add_argument("root", type=Path)
    parser.add_argument("--directory", default="/")
    parser.add_argument("--show", nargs=2, type=Path, action="append", default=[])
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    raise_loopback()
    prepare(options.root, [tuple(pair) for pair in options.show])
    enter(options.root, options.directory)
    environment = dict(pair.split("=", 1) for pair in options.env)
    os.execvpe(options.command[0], options.command, environment)


if __name__ == "__main__":
    main()
