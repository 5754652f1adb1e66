"""`auricle check-config`: reports all mistakes in a configuration, and starts nothing."""

from __future__ import annotations

import ssl
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
import yaml

from auricle.checkpoints.download.ctranslate2 import is_ctranslate2
from auricle.checkpoints.download.pull import check_ctranslate2, locate
from auricle.checkpoints.download.store import is_name
from auricle.checkpoints.files import read_config
from auricle.checkpoints.text_model import check_positions, read_text_config
from auricle.config.settings import (
    CommonSettings,
    FrontendSettings,
    PlannerSettings,
    TranslateWorkerSettings,
)
from auricle.core.errors import AuricleError, SettingsError
from auricle.dynamo.secrets import secrets_of
from auricle.frontend.transport.access.gate import access_of, check_keyless
from auricle.launcher.checks import fixed_ports
from auricle.launcher.config import (
    COMMON,
    KUBERNETES,
    Mistake,
    Sections,
    check_sections,
    load_config,
    located,
)
from auricle.launcher.lengths import check_lengths
from auricle.launcher.model_folders import READERS
from auricle.load.capacity_profile import read_profile

# Settings that are right by themselves and wrong together.


def check_together(
    settings: Mapping[str, CommonSettings], *, one_machine: bool
) -> Iterator[Mistake]:
    """Yield mistakes in valid sections that a start would refuse, or find later.

    On `one_machine` two components cannot have the same port.
    """
    yield from _refused("PdWorker.max_model_len", lambda: check_lengths(settings))
    if one_machine:
        yield from _same_ports(settings)
    for component in settings.values():
        if component.discovery != "file" and component.secret_file is None:
            yield from _refused("Common.secret_file", _without_secret(component))
    frontend, planner = settings.get("Frontend"), settings.get("Planner")
    if isinstance(frontend, FrontendSettings):
        yield from _of_frontend(frontend)
    if isinstance(planner, PlannerSettings) and planner.replicas:
        yield from _of_planner(planner)


def _refused(key: str, check: Callable[[], object]) -> Iterator[Mistake]:
    try:
        check()
    except SettingsError as error:
        yield Mistake(key, str(error))


def _without_secret(settings: CommonSettings) -> Callable[[], object]:
    # With insecure_internal it would only log.
    return lambda: None if settings.insecure_internal else secrets_of(settings)


def _same_ports(settings: Mapping[str, CommonSettings]) -> Iterator[Mistake]:
    users: defaultdict[int, list[str]] = defaultdict(list)
    # Dynamo's own frontend is in another graph than the planner's, but in one with our frontend.
    for component, key, _host, port in fixed_ports(settings):
        users[port].append(f"{component}.{key}")
    for port, keys in users.items():
        if len(keys) > 1:
            others = " and ".join(dict.fromkeys(keys))
            yield Mistake(
                keys[-1],
                f"{len(keys)} processes would listen at this port: {others}",
                "give each one of its own; replicas use the ports that follow",
                port,
            )


def _of_frontend(settings: FrontendSettings) -> Iterator[Mistake]:
    if settings.tls_key is not None and settings.tls_certificate is None:
        yield Mistake(
            "Frontend.tls_key",
            "set without a certificate",
            "set Frontend.tls_certificate too, or neither",
            str(settings.tls_key),
        )
    try:
        access = access_of(settings)
    except SettingsError as error:
        if settings.api_keys_file is None:  # otherwise check_files reports it
            yield Mistake("Frontend.api_keys_file", str(error).splitlines()[0])
        return
    yield from _refused("Frontend.keyless_tenant", lambda: check_keyless(settings, access))


def _of_planner(settings: PlannerSettings) -> Iterator[Mistake]:
    if settings.profile is None:
        yield from _refused("Planner.profile", lambda: read_profile(None))
    if settings.discovery == "etcd" and not settings.etcd_endpoints:
        yield Mistake(
            "Common.etcd_endpoints",
            "empty, but the planner's lease is in etcd",
            "set addresses such as http://HOST:2379, separated by commas",
            settings.etcd_endpoints,
        )


# Files that a configuration names: their existence and content.

_RIGHT = "name a path that exists here, or give --no-files if it is on another machine"
# Made by the first process if they are missing.
_MADE = ("discovery_path", "jobs_folder")


def check_files(settings: CommonSettings, home: Callable[[str], str]) -> Iterator[Mistake]:
    """Yield the mistakes in files that a component's settings name.

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
            # The error of a keys file continues with an example.
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
        check_positions(config, settings.max_model_len, settings.component)


def _load(turn_model: Path) -> None:
    from auricle.frontend.audio import (
        turn_detection as turns,  # onnxruntime, which no other check needs
    )

    turns.turn_model(turn_model)


def _check_pair(certificate: Path, key: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key, password="")  # without a prompt
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(
            f"it cannot serve TLS with the key {key}: {error}; both must be PEM, of one pair, and "
            "the key without a password"
        ) from None


# Where a key stands in a config file, and which are there twice. Pure.


@dataclass(frozen=True)
class Twice:
    """A key that a mapping has at two lines; YAML takes the second."""

    key: str
    first: int
    second: int


@dataclass(frozen=True)
class Places:
    """The line, from 1, of every key of the file, which is written as `Frontend.port`."""

    lines: dict[str, int]
    twice: tuple[Twice, ...]

    def line(self, key: str) -> int | None:
        """Return the line of a key, or of the nearest above it that the file has."""
        while key and key not in self.lines:
            key = key.rpartition(".")[0]
        return self.lines.get(key)


def places(text: str) -> Places:
    """Return the places of the keys of a file, which must be valid YAML."""
    lines: dict[str, int] = {}
    twice: list[Twice] = []
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    for key, line in _keys(root, ""):
        if key in lines:
            twice.append(Twice(key, lines[key], line))
        lines[key] = line
    return Places(lines, tuple(twice))


def _keys(node: yaml.Node | None, prefix: str) -> Iterator[tuple[str, int]]:
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        if key.tag == "tag:yaml.org,2002:merge":
            continue
        name = f"{prefix}{key.value}"
        yield name, key.start_mark.line + 1
        yield from _keys(value, f"{name}.")


def check_config(path: Path, overrides: Sequence[str], *, files: bool, as_json: bool) -> bool:
    """Print the mistakes in a configuration; return whether there are none.

    Without `files` those that it names are not looked at. Raises SettingsError if `path` cannot be
    read, is not YAML or has no sections, and for an override of another form.
    """
    sections = load_config(path, overrides)
    found = findings(path, sections, files=files)
    if as_json:
        report = {"file": str(path), "right": not found, "mistakes": found}
        print(msgspec.json.format(msgspec.json.encode(report, enc_hook=str)).decode())
    else:
        print("\n".join(map(str, found)) or f"{path} is right.")
    return not found


def findings(path: Path, sections: Sections, *, files: bool) -> list[Mistake]:
    """Return the mistakes in the order of the file, then of the command line."""
    checked = check_sections(sections)
    where = places(path.read_text())
    checked.add(*_twice(where))
    running = {
        name: own
        for name, own in checked.settings.items()
        if name != KUBERNETES and _runs(name, own, sections)
    }
    checked.add(*_of_valid(running, sections, files=files))
    found = [located(mistake, sections, str(path)) for mistake in checked.mistakes]
    found = [
        msgspec.structs.replace(one, line=where.line(one.key)) if one.source == str(path) else one
        for one in found
    ]
    return sorted(found, key=lambda one: (one.source != str(path), one.line or 0))


def _runs(name: str, settings: CommonSettings, sections: Sections) -> bool:
    """Whether the file starts a component; it starts Dynamo's frontend only if it names it."""
    return settings.replicas > 0 and (name != "DynamoFrontend" or name in sections)


def _twice(where: Places) -> Iterator[Mistake]:
    for one in where.twice:
        wrong = f"set twice, at line {one.first} and at line {one.second}"
        yield Mistake(one.key, wrong, "leave out one; YAML takes the last")


def _of_valid(
    settings: dict[str, CommonSettings], sections: Sections, *, files: bool
) -> Iterator[Mistake]:
    if files:
        for name, own in settings.items():
            yield from check_files(own, partial(_home, sections, name))
    # Pods have addresses of their own, and machines too.
    alone = KUBERNETES not in sections and all(s.discovery == "file" for s in settings.values())
    yield from check_together(settings, one_machine=alone)


def _home(sections: Sections, section: str, key: str) -> str:
    """Return the key with the section that sets it; unset ones belong to `Common` if possible."""
    own = key in sections.get(section, {}) or key not in CommonSettings.model_fields
    return f"{section if own else COMMON}.{key}"
