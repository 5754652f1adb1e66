"""Settings that are right by themselves and wrong together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from auricle.errors import SettingsError
from auricle.frontend.doors.access.granted import access_of, check_keyless
from auricle.launcher.checks import fixed_ports
from auricle.launcher.config import Mistake
from auricle.launcher.lengths import check_lengths
from auricle.load.capacity_profile import read_profile
from auricle.runtime.secrets import secrets_of
from auricle.settings import CommonSettings, FrontendSettings, PlannerSettings


def check_together(
    settings: Mapping[str, CommonSettings], *, one_machine: bool
) -> Iterator[Mistake]:
    """Yield what a start would refuse, or find out later, of valid sections.

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
    # Dynamo's own frontend is in another graph than the planner's, but beside our frontend.
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
        if settings.api_keys_file is None:  # else it is said of the file
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
