"""The deployment's secret, which authorizes calls to its workers; its file may change."""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from auricle.config.settings import CommonSettings
from auricle.core.errors import SettingsError
from auricle.process.watched_file import CHECK_SECONDS, WatchedFile

log = logging.getLogger(__name__)
SECRET_FILE = ".secret"
_SHORTEST = 32  # characters: `openssl rand -hex 32` gives 64
_PURPOSE = b"auricle internal messages 1\0"
_OTHERS = 0o027  # others may not read it, and only its owner may change it


class Secrets:
    """The keys derived from a file with one secret per line, or from none.

    The first key signs and all verify: a new secret is appended everywhere, then moved to the
    first line, then the old one is removed. The file is checked once a second at most; if it cannot
    be read, the keys are unchanged. Thread-safe.
    """

    def __init__(
        self, path: Path | None, setting: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Raises SettingsError that names `setting` and the file, but never a secret."""
        self._file = None if path is None else WatchedFile(path)
        self._setting = setting
        self._clock = clock
        self._lock = threading.Lock()
        self._checked_at = clock()
        self._keys = () if path is None else _read(path, setting)

    @property
    def keys(self) -> tuple[bytes, ...]:
        """The keys, 32 bytes each; none if messages are not signed."""
        if self._file is not None and self._clock() - self._checked_at >= CHECK_SECONDS:
            with self._lock:
                self._reload(self._file)
        return self._keys

    def _reload(self, file: WatchedFile) -> None:
        self._checked_at = self._clock()
        if not file.changed():
            return
        try:
            self._keys = _read(file.path, self._setting)
        except SettingsError as error:
            log.error("keeping the present secrets: %s", error)
        else:
            log.info("read %d secret(s) from %s", len(self._keys), file.path)


def secrets_of(settings: CommonSettings) -> Secrets:
    """Return the secrets of the deployment that these settings describe.

    With file discovery and without a named file, they are in the directory of its records, and made
    by the first process. Raises SettingsError if a file is needed and none is named.
    """
    if settings.secret_file is not None:
        return Secrets(settings.secret_file, "Common.secret_file")
    if settings.insecure_internal:
        log.warning("Common.insecure_internal: whoever reaches this process may use it")
        return Secrets(None, "Common.secret_file")
    if settings.discovery == "file":
        return Secrets(_made(settings.discovery_path), "the secret in Common.discovery_path")
    raise SettingsError(
        f"Common.discovery is {settings.discovery!r}, and Common.secret_file is not set: workers "
        "could not authenticate the deployment's requests. Make a file with "
        "`openssl rand -hex 32`, readable by auricle only, or set Common.insecure_internal on an "
        "isolated network"
    )


def _made(directory: Path) -> Path:
    """Return the secret's file in a private directory; create it if this process is the first."""
    path = directory / SECRET_FILE
    if path.exists():
        return path
    draft = directory / f"{SECRET_FILE}-{os.getpid()}-{threading.get_ident()}"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32) + "\n")
        # Complete or absent, and never replaced: another process may have made one meanwhile.
        with suppress(FileExistsError):
            path.hardlink_to(draft)
    except OSError as error:
        raise SettingsError(
            f"cannot write {path}: {error.strerror}; set another Common.discovery_path"
        ) from None
    finally:
        draft.unlink(missing_ok=True)
    return path


def _read(path: Path, setting: str) -> tuple[bytes, ...]:
    try:
        mode = path.stat().st_mode & 0o777
        lines = [line.strip() for line in path.read_bytes().splitlines()]
    except OSError as error:
        raise SettingsError(f"cannot read {setting} {path}: {error.strerror}") from None
    if mode & _OTHERS:
        raise SettingsError(
            f"{setting} {path} has mode {mode:o}: other users may read or change it; chmod 600 it"
        )
    found = [line for line in lines if line and not line.startswith(b"#")]
    if not found:
        raise SettingsError(f"{setting} {path} has no secret; `openssl rand -hex 32` makes one")
    if min(len(line) for line in found) < _SHORTEST:
        raise SettingsError(
            f"{setting} {path} has a secret of fewer than {_SHORTEST} characters; "
            "`openssl rand -hex 32` makes one"
        )
    return tuple(hashlib.sha256(_PURPOSE + line).digest() for line in found)
