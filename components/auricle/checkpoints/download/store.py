"""The folder of pulled models. A model's folder is complete once it has a record of its files."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from auricle.core.errors import AuricleError, SettingsError

# Errors with their own exit status.


class UnknownName(AuricleError):
    """No model has this name. Not retryable."""

    code = "model_unknown"


class NotReachable(AuricleError):
    """The hub or the package index does not respond, or rejects all requests."""

    code = "model_unreachable"


class DamagedModel(AuricleError):
    """Files differ from the published or pulled ones."""

    code = "model_damaged"


ENVIRONMENT = "AURICLE_MODELS"
_RECORD = ".auricle.json"
_UNFINISHED = ".unfinished"
_MIB = 1 << 20
# Each part begins with a letter, digit or underscore: no name leads out of the folder or into a
# hidden one.
_NAME = re.compile(r"[A-Za-z0-9_][\w.-]*(/[A-Za-z0-9_][\w.-]*){0,2}", re.ASCII)
# The repository's bundled models are named by their path.
_BUNDLED = "models/"


class File(msgspec.Struct, frozen=True):
    size: int
    sha256: str


class PullRecord(msgspec.Struct, frozen=True):
    source: str
    files: dict[str, File]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files.values())


def root() -> Path:
    """Return the folder of all models: AURICLE_MODELS, or a folder in the user's cache."""
    if given := os.environ.get(ENVIRONMENT):
        return Path(given).absolute()
    cache = os.environ.get("XDG_CACHE_HOME")
    # The XDG specification requires to ignore a relative path.
    base = Path(cache) if cache and Path(cache).is_absolute() else Path.home() / ".cache"
    return base / "auricle" / "models"


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None and not text.startswith(_BUNDLED)


def find(name: str) -> Path | None:
    """Return the folder of a pulled model, or None."""
    folder = root() / name
    return folder if is_name(name) and (folder / _RECORD).is_file() else None


def pulled() -> dict[str, PullRecord]:
    found = {}
    for depth in ("*", "*/*", "*/*/*"):
        for path in root().glob(f"{depth}/{_RECORD}"):
            name = path.parent.relative_to(root()).as_posix()
            if is_name(name):
                found[name] = read_record(path.parent)
    return dict(sorted(found.items()))


def read_record(folder: Path) -> PullRecord:
    """Return the record in a model's folder. Raises DamagedModel if it cannot be read."""
    try:
        return msgspec.json.decode((folder / _RECORD).read_bytes(), type=PullRecord)
    except (OSError, msgspec.MsgspecError) as error:
        raise DamagedModel(f"the record {folder / _RECORD} cannot be read: {error}") from None


def differing(folder: Path) -> list[str]:
    """Return the differences from the record; reads all files. Blocks for seconds."""
    found = []
    for name, file in read_record(folder).files.items():
        path = folder / name
        if not path.is_file():
            found.append(f"{name} is missing")
        elif path.stat().st_size != file.size:
            found.append(f"{name} has {path.stat().st_size} bytes instead of {file.size}")
        elif sha256(path) != file.sha256:
            found.append(f"the content of {name} has changed")
    return found


def remove(name: str) -> int:
    """Remove a model and the rest of an interrupted pull; returns the bytes freed.

    Raises UnknownName if neither exists.
    """
    folder, left = find(name), _unfinished(name)
    there = [one for one in (folder, left) if one is not None and one.is_dir()]
    if not is_name(name) or not there:
        raise UnknownName(f"{name} was not pulled; `auricle models list` shows the pulled models")
    freed = sum(bytes_below(one) for one in there)
    if folder is not None:
        # First, so that the model counts as absent if the removal is interrupted.
        (folder / _RECORD).unlink()
    for one in there:
        shutil.rmtree(one)
        for empty in one.parents:
            if empty == root() or any(empty.iterdir()):
                break
            empty.rmdir()
    return freed


def _unfinished(name: str) -> Path:
    return root() / _UNFINISHED / name.replace("/", "--")


@contextmanager
def unfinished(name: str) -> Iterator[Path]:
    """Yield the work folder of a model; it remains after an error, for the next attempt.

    Waits for another process with the same model. Raises SettingsError if the folder is not
    writable.
    """
    folder = _unfinished(name)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with folder.with_name(f"{folder.name}.lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            folder.mkdir(exist_ok=True)
            try:
                yield folder
            except AuricleError:
                if bytes_below(folder) == 0:
                    shutil.rmtree(folder, ignore_errors=True)
                raise
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        raise SettingsError(
            f"models are kept in {root()} ({ENVIRONMENT} names another folder), but: {error}"
        ) from None


def finish(made: Path, name: str, source: str) -> Path:
    """Record the files in `made` and move them to the model's folder, which is returned."""
    names = sorted(p.relative_to(made).as_posix() for p in made.rglob("*") if p.is_file())
    files = {file: File((made / file).stat().st_size, sha256(made / file)) for file in names}
    (made / _RECORD).write_bytes(msgspec.json.encode(PullRecord(source, files)))
    folder = root() / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    if folder.exists():
        shutil.rmtree(folder)  # without a record: a removal was interrupted
    made.rename(folder)
    return folder


def check_room(folder: Path, needed: int) -> None:
    """Raise AuricleError if the disk of a folder has fewer free bytes than needed."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise AuricleError(
            f"{root()} has {free // _MIB} MiB free, but {needed // _MIB} MiB are needed: free "
            f"some, or set {ENVIRONMENT} to another folder"
        )


def sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def bytes_below(folder: Path) -> int:
    """Return the bytes of all files below a folder, which may change meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):  # leaves out folders that have vanished
        for name in names:
            with suppress(FileNotFoundError):
                total += Path(parent, name).stat().st_size
    return total


def check_files(name: str, folder: Path) -> None:
    """Raise DamagedModel if a pulled model differs from its record; reads all files."""
    if find(name) != folder:
        return
    if damage := differing(folder):
        raise DamagedModel(
            f"{name} is damaged: {'; '.join(damage)}; "
            f"`auricle models remove {name}` and pull it again"
        )


# Called with bytes so far and bytes in all, from another thread too.
Report = Callable[[int, int], None]
_INTERVAL_SECONDS = 0.2


@contextmanager
def reporting(folder: Path, total: int, report: Report) -> Iterator[None]:
    """Report the bytes below `folder` until the block ends, and the total after success."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_INTERVAL_SECONDS):
            report(min(bytes_below(folder), total), total)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    report(total, total)
