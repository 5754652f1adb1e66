"""Builds auricle's image from the Dockerfile without a container daemon or a registry of images.

    python deploy/docker/building.py cpu        # or gpu; the image is auricle:cpu

Needs Linux, root, and Debian's packages buildah and mmdebstrap. The Dockerfile's base image (Python
on Debian) is replaced by one that mmdebstrap makes from Debian's packages; all other steps are the
Dockerfile's own. pip uses this machine's settings, which are mounted during the build and are not
in the image.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlparse

ROOT = Path(__file__).parents[2]
DOCKERFILE = Path(__file__).with_name("Dockerfile")
BASE = "localhost/auricle-base"
# As in the official Python image: Python 3.11 with ensurepip and its headers, as `python`.
SUITE = "bookworm"
PACKAGES = ("python3", "python3-venv", "python3-dev", "python-is-python3", "ca-certificates")
TARGETS = ("cpu", "gpu")
_BUILD_S, _BASE_S = 3 * 3600, 3600
_SETTINGS_OF_THIS_RUN = (
    "config-file",
    "no-cache-dir",
    "disable-pip-version-check",
    "require-virtualenv",
)


class ImageError(Exception):
    """An image cannot be built or checked; the message has the reason."""


class Storage:
    """The folder for images, separate from the machine's own image storage."""

    def __init__(self, folder: Path, driver: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._options = [f"--root={folder}/root", f"--runroot={folder}/run"]
        self._options.append(f"--storage-driver={driver}")

    def buildah(self, *arguments: str, seconds: float = 600, show: bool = False) -> str:
        """Run buildah and return its output, or show it."""
        command = ["buildah", *self._options, *arguments]
        try:
            done = subprocess.run(
                command,
                stdout=None if show else subprocess.PIPE,
                text=True,
                timeout=seconds,
                check=False,
            )
        except FileNotFoundError:
            raise ImageError("buildah is not installed: apt-get install buildah") from None
        except subprocess.TimeoutExpired:
            raise ImageError(f"`{' '.join(command[:6])} …` took over {seconds:g} s") from None
        if done.returncode:
            raise ImageError(f"`{' '.join(command)}` failed; see its output above")
        return (done.stdout or "").strip()

    def has(self, image: str) -> bool:
        """Whether the image exists."""
        return bool(self.buildah("images", "--quiet", "--filter", f"reference={image}"))


def make_base(storage: Storage) -> None:
    """Make the base image unless it exists."""
    if storage.has(BASE):
        return
    if shutil.which("mmdebstrap") is None:
        raise ImageError("mmdebstrap is not installed: apt-get install mmdebstrap")
    with tempfile.TemporaryDirectory() as folder:
        archive = f"{folder}/base.tar"
        include = f"--include={','.join(PACKAGES)}"
        command = ["mmdebstrap", "--quiet", "--variant=minbase", include, SUITE, archive]
        if subprocess.run(command, timeout=_BASE_S, check=False).returncode:
            raise ImageError("mmdebstrap failed; see its output above")
        container = storage.buildah("from", "scratch")
        storage.buildah("add", container, archive, "/")
        storage.buildah("config", "--env", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin", container)
        storage.buildah("commit", "--rm", container, BASE)


def pip_settings() -> dict[str, str]:
    """pip's settings on this machine, from its files and the environment: `global.index-url`."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    found = {}
    for line in listed.stdout.splitlines():
        name, equals, value = line.partition("=")
        if equals:
            # The environment's settings come last and apply to every command.
            found[name.replace(":env:", "global")] = value.strip().strip("'\"")
    return {n: v for n, v in found.items() if n.partition(".")[2] not in _SETTINGS_OF_THIS_RUN}


def as_file(settings: dict[str, str]) -> str:
    """The settings as a pip.conf; a value with several words is a list."""
    sections: dict[str, list[str]] = {}
    for name, value in settings.items():
        section, _, key = name.partition(".")
        words = value.replace("\\n", " ").split()
        sections.setdefault(section, []).append(f"{key} = " + "\n    ".join(words))
    return "\n".join("\n".join([f"[{name}]", *lines, ""]) for name, lines in sections.items())


def folders(settings: dict[str, str]) -> list[Path]:
    """Folders of this machine in the settings: packages, certificates."""
    words = [word for value in settings.values() for word in value.replace("\\n", " ").split()]
    named = [unquote(urlparse(word).path) if word.startswith("file:") else word for word in words]
    paths = [Path(name) for name in named if name.startswith("/")]
    # With file:///packages/simple the packages themselves may be next to `simple`.
    roots = {path.parent if path.name == "simple" else path for path in paths}
    return sorted(path for path in roots if path.exists())


@contextmanager
def pip_of_this_machine() -> Iterator[list[str]]:
    """Yield buildah's options that mount this machine's pip settings in the build."""
    settings = pip_settings()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "pip.conf"
        config.write_text(as_file(settings))
        mounts = [(config, Path("/etc/pip.conf")), *((path, path) for path in folders(settings))]
        yield [f"--volume={source}:{target}:ro" for source, target in mounts]


def build(storage: Storage, target: str) -> str:
    """Build the image of a target, by the steps of the Dockerfile; return its name."""
    make_base(storage)
    image = f"localhost/auricle:{target}"
    with pip_of_this_machine() as mounts:
        storage.buildah(
            *("bud", "--isolation=chroot", "--format=docker", f"--target={target}"),
            *(f"--build-arg=PYTHON={BASE}", "--pull-never", f"--file={DOCKERFILE}"),
            *(*mounts, f"--tag={image}", str(ROOT)),
            seconds=_BUILD_S,
            show=True,
        )
    return image


def parser(what: str) -> argparse.ArgumentParser:
    """The arguments that building and checking have in common."""
    found = argparse.ArgumentParser(description=what)
    found.add_argument("target", choices=TARGETS)
    found.add_argument("--storage", type=Path, default=ROOT / "build/images")
    found.add_argument("--driver", default=os.environ.get("STORAGE_DRIVER", "overlay"))
    return found


def main() -> None:
    options = parser("Builds auricle's image without a container daemon.").parse_args()
    try:
        print(build(Storage(options.storage, options.driver), options.target))
    except ImageError as error:
        sys.exit(f"image: {error}")


if __name__ == "__main__":
    main()
