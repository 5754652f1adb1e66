"""Files that a configuration names: whether they are there, and what is in them."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from auricle.checkpoint.files import read_config
from auricle.checkpoint.text_model import check_positions, read_text_config
from auricle.errors import AuricleError, SettingsError
from auricle.frontend.doors.access.granted import access_of
from auricle.launcher.config import Mistake
from auricle.launcher.model_folders import READERS
from auricle.load.capacity_profile import read_profile
from auricle.models.ctranslate2 import is_ctranslate2
from auricle.models.resolve import check_ctranslate2, locate
from auricle.models.store import is_name
from auricle.runtime.secrets import secrets_of
from auricle.settings import (
    CommonSettings,
    FrontendSettings,
    PlannerSettings,
    TranslateWorkerSettings,
)

_RIGHT = "name a path that exists here, or give --no-files if it is on another machine"
# Made by the first process if it is missing.
_MADE = ("discovery_path",)


def check_files(settings: CommonSettings, home: Callable[[str], str]) -> Iterator[Mistake]:
    """Yield what is wrong with the files that the settings of a component name.

    `home(key)` is the key with the section in which it stands.
    """
    missing = set()
    for key in type(settings).model_fields:
        path = getattr(settings, key)
        if not isinstance(path, Path) or key in _MADE:
            continue
        if key in READERS and is_name(str(path)) and not path.exists():
            try:
                locate(path)
            except SettingsError as error:
                missing.add(key)
                yield Mistake(home(key), str(error), value=str(path))
        elif not path.exists():
            missing.add(key)
            yield Mistake(home(key), "does not exist", _RIGHT, str(path))
    for key, read in _readers(settings):
        if key in missing:
            continue
        try:
            read()
        except AuricleError as error:
            # The error of a keys file goes on with an example of one.
            wrong = str(error).splitlines()[0]
            yield Mistake(home(key), wrong, value=str(getattr(settings, key)))


def _readers(settings: CommonSettings) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the keys of files with what reads them; each raises AuricleError."""
    yield "model", lambda: _check_model(settings.model)
    if settings.translate_model is not None:
        yield "translate_model", partial(_check_translator, settings, settings.translate_model)
    if settings.secret_file is not None:
        yield "secret_file", lambda: secrets_of(settings)
    if isinstance(settings, PlannerSettings) and settings.profile is not None:
        yield "profile", lambda: read_profile(settings.profile)
    if isinstance(settings, FrontendSettings):
        if settings.api_keys_file is not None:
            yield "api_keys_file", lambda: access_of(settings)
        if settings.turn_model is not None:
            yield "turn_model", partial(_load, settings.turn_model)
        if settings.tls_certificate is not None and settings.tls_key is not None:
            certificate, key = settings.tls_certificate, settings.tls_key
            if certificate.exists() and key.exists():
                yield "tls_certificate", lambda: _check_pair(certificate, key)


def _check_model(named: Path) -> None:
    folder = locate(named)
    if is_ctranslate2(folder):
        check_ctranslate2(folder)
    else:
        read_config(folder)


def _check_translator(settings: CommonSettings, path: Path) -> None:
    config = read_text_config(locate(path))
    if isinstance(settings, TranslateWorkerSettings):
        check_positions(config, settings.max_model_len)


def _load(turn_model: Path) -> None:
    from auricle.frontend.listening import turns  # onnxruntime, which no other check needs

    turns.turn_model(turn_model)


def _check_pair(certificate: Path, key: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key, password="")  # nobody is there to be asked
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(
            f"it cannot serve TLS with the key {key}: {error}; both must be PEM, of one pair, and "
            "the key without a password"
        ) from None
