"""The requirements of a frontend: `auricle component Frontend --check`."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from functools import partial

from auricle.config.settings import FrontendSettings
from auricle.core.errors import SettingsError
from auricle.process.needs import Need, imports_of

_REFLECTION = ("grpc_reflection.v1alpha.reflection", "grpc_reflection.v1alpha.reflection_pb2")


def needs(settings: FrontendSettings) -> Sequence[Need]:
    return [
        imports_of("frontend", "grpc.aio", *_REFLECTION),
        Need("API keys", partial(_keys, settings)),
        Need("TLS", partial(_certificate, settings)),
        Need("voice activity model", _voice_activity),
        Need("turn model", partial(_turn_model, settings)),
    ]


def _keys(settings: FrontendSettings) -> str:
    from auricle.frontend.transport.access.gate import Access
    from auricle.frontend.transport.access.keys_file import load_keys

    access = Access(load_keys(settings.api_keys_file))
    return "needed" if access.needs_keys else "none: everybody may use it"


def _certificate(settings: FrontendSettings) -> str:
    if settings.tls_certificate is None or settings.tls_key is None:
        return "none"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            settings.tls_certificate, settings.tls_key
        )
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(
            f"Frontend.tls_certificate {settings.tls_certificate} and Frontend.tls_key "
            f"{settings.tls_key} cannot be used: {error.strerror or error}"
        ) from None
    return f"{settings.tls_certificate}"


def _turn_model(settings: FrontendSettings) -> str:
    from auricle.frontend.audio.turn_detection import turn_model

    if settings.turn_model is None:
        return "none"
    turn_model(settings.turn_model)
    return f"{settings.turn_model}"


def _voice_activity() -> str:
    from auricle.audio.voice_activity import VoiceActivityModel

    VoiceActivityModel()
    return "loaded"
