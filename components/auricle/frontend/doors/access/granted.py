"""Who is let in by the settings: keys, and clients of ways that have none."""

from __future__ import annotations

from auricle.errors import AuricleError, SettingsError
from auricle.frontend.doors.access.gate import Access
from auricle.frontend.doors.access.keys_file import load_keys
from auricle.settings import FrontendSettings


def access_of(settings: FrontendSettings) -> Access:
    """Return what lets clients in.

    Raises SettingsError for keys that cannot be read, and for settings that need keys where there
    are none.
    """
    access = Access(load_keys(settings.api_keys_file))
    if settings.metrics_need_key and not access.needs_keys:
        raise SettingsError(
            "Frontend.metrics_need_key is set, but there are no keys; set Frontend.api_keys_file"
        )
    return access


def check_keyless(settings: FrontendSettings, access: Access) -> None:
    """Raise SettingsError if clients of ways without keys could not be let in, or go unheard."""
    _check_tenant(settings, access)
    if settings.audiosocket_port and not (settings.nats_server or settings.log_transcripts):
        raise SettingsError(
            "Frontend.audiosocket_port is set, but the text of its calls would go nowhere; "
            "set nats_server"
        )


def _check_tenant(settings: FrontendSettings, access: Access) -> None:
    tenant, used = settings.keyless_tenant, settings.keyless_ports
    if tenant is not None and not access.needs_keys:
        raise SettingsError(
            "Frontend.keyless_tenant is set, but there are no keys; set Frontend.api_keys_file"
        )
    if not used or not access.needs_keys:
        return
    if tenant is None:
        raise SettingsError(
            f"Frontend.{next(iter(used))}_port would let in everybody, as its protocol has no "
            "keys: name the key whose tenant its clients are in Frontend.keyless_tenant, or unset "
            "the port"
        )
    try:
        access.keyless(tenant, "live")
    except AuricleError as error:
        raise SettingsError(
            f"Frontend.keyless_tenant {tenant!r} lets nobody in: {error.for_client}"
        ) from None
