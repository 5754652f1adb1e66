"""Where API keys come from: a YAML file, which is read again when it changes, or a variable."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from auricle.core.errors import SettingsError
from auricle.frontend.transport.access.keys import ApiKey, KeyRing
from auricle.process.watched_file import CHECK_SECONDS, WatchedFile

log = logging.getLogger(__name__)
ENVIRONMENT = "AURICLE_API_KEYS"
_FORM = """a keys file looks like this (`auricle key NAME` writes the entries):

keys:
- name: acme
  sha256: 64 hexadecimal digits
"""


class _KeyFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    keys: tuple[ApiKey, ...]


class TakesKeys(Protocol):
    """What keys are for; `review` is called about once a second, as keys expire too."""

    def replace(self, keys: Sequence[ApiKey]) -> int:
        """Use these keys from now on, and return how many sessions are ended because of them."""
        ...

    def review(self) -> int:
        """End the sessions whose key may no longer be used, and return how many those are."""
        ...


class KeysFile:
    """A keys file that is watched. Create it before the keys are first read, to miss no change."""

    def __init__(self, path: Path) -> None:
        self._file = WatchedFile(path, settled=True)

    def changed_keys(self) -> Sequence[ApiKey] | None:
        """Return the keys if the file has changed and is the same as at the last call.

        The second call is for files that are written in place: half of one would withdraw the
        keys of the other half. Raises SettingsError, once, for a changed file without valid keys.
        """
        return read_keys(self._file.path) if self._file.changed() else None

    async def follow(self, keys: TakesKeys, seconds: float = CHECK_SECONDS) -> None:
        """Look every `seconds` and hand over new keys, until cancelled.

        A file that cannot be used leaves the keys unchanged and logs one line.
        """
        while True:
            await asyncio.sleep(seconds)
            try:
                found = await asyncio.to_thread(self.changed_keys)
            except SettingsError as error:
                log.error("the old API keys stay: %s", str(error).splitlines()[0])
                found = None
            if found is not None:
                ended = keys.replace(found)
                log.info("%d API keys read again; %d sessions end", len(found), ended)
            elif ended := keys.review():
                log.info("%d sessions end because their API keys expired", ended)


def load_keys(file: Path | None, environment: str | None = None) -> KeyRing:
    """Load keys from a YAML file, or from `NAME=SHA256,…` in the environment variable.

    Without either no key is needed. Raises SettingsError, naming the source and the value,
    if the keys cannot be read, and if both sources are set.
    """
    if environment is None:
        environment = os.environ.get(ENVIRONMENT, "")
    if file is not None and environment:
        raise SettingsError(f"Frontend.api_keys_file and {ENVIRONMENT} are both set; use one")
    if file is not None:
        return KeyRing(read_keys(file))
    if environment:
        try:
            return KeyRing(_distinct(_from_environment(environment), ENVIRONMENT))
        except ValidationError as error:
            raise SettingsError(f"{ENVIRONMENT}: {_first_fault(error)}") from None
    return KeyRing(None)


def read_keys(file: Path) -> Sequence[ApiKey]:
    """Read a keys file. Raises SettingsError; the first line of its message names the fault."""
    content = _content(file)
    if not isinstance(content, dict) or "keys" not in content:
        found = "nothing" if not content else "no line `keys:`"
        raise SettingsError(f"{file} has {found}; {_FORM}")
    try:
        return _distinct(_KeyFile.model_validate(content).keys, str(file))
    except ValidationError as error:
        raise SettingsError(f"{file}: {_first_fault(error)}; {_FORM}") from None


def _content(file: Path) -> object:
    try:
        return yaml.safe_load(file.read_text())
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SettingsError(f"Frontend.api_keys_file: {file} cannot be read: {why}") from None
    except yaml.YAMLError as error:
        # Its own message quotes the file, which may contain a key.
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" in line {mark.line + 1}"
        raise SettingsError(
            f"Frontend.api_keys_file: {file} cannot be read: not valid YAML{where}"
        ) from None


def _first_fault(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"


def _from_environment(text: str) -> list[ApiKey]:
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    pairs = [entry.partition("=") for entry in entries]
    return [ApiKey(name=name.strip(), sha256=digest.strip()) for name, _, digest in pairs]


def _distinct(keys: Sequence[ApiKey], source: str) -> Sequence[ApiKey]:
    names, digests = [key.name for key in keys], [key.sha256 for key in keys]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SettingsError(f"{source}: more than one key is called {', '.join(twice)}")
    if same := sorted(key.name for key in keys if digests.count(key.sha256) > 1):
        raise SettingsError(f"{source}: {' and '.join(same)} have the same sha256")
    return keys
