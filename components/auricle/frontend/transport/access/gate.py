"""Authentication: finds the client of a request by its headers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from auricle.config.settings import FrontendSettings
from auricle.core.errors import AuricleError, BadRequest, SettingsError, Unauthorized
from auricle.core.limits import OFFERED_PROTOCOLS
from auricle.frontend.transport.access.keys import ANYONE, ApiKey, KeyRing, Scope
from auricle.frontend.transport.access.keys_file import load_keys
from auricle.frontend.transport.access.limits import ClientAccount, Clients
from auricle.frontend.transport.access_log import identified
from auricle.frontend.transport.connections import shown_key
from auricle.frontend.transport.peers import Peers

# Browsers cannot set headers of a WebSocket, so OpenAI's clients send the key as a subprotocol.
_SUBPROTOCOL_KEY = "openai-insecure-api-key."
# Deepgram's offer one of these and then the key; in the header they write `Token KEY`.
_SCHEMES = ("bearer", "token")
# Vapi sends the secret of a transcriber's server in a header of its own.
_VAPI = "x-vapi-secret"


class Access:
    """Authenticates requests, and ends sessions whose key is withdrawn. Call it on one event loop.

    It is what `KeysFile.follow` hands keys over to.
    """

    def __init__(self, keys: KeyRing, peers: Peers | None = None) -> None:
        self.peers = peers or Peers()
        self._keys = keys
        self._clients = Clients(self.peers)

    @property
    def needs_keys(self) -> bool:
        return self._keys.needed

    def client(self, headers: Mapping[str, str], scope: Scope | None = None) -> ClientAccount:
        """Return the client of a request; `headers` has lower-case names.

        Without `scope` any key will do. Raises Unauthorized if the key is missing, unknown or
        expired, Forbidden if it is disabled or lacks the scope.
        """
        return self._with_key(_secret(headers), scope)

    def holder(self, secret: str, scope: Scope) -> ClientAccount:
        """Return the client of a key that did not come in a header. Raises as `client` does."""
        return self._with_key(secret, scope)

    def keyless(self, tenant: str | None, scope: Scope) -> ClientAccount:
        """Return the client of a connection whose protocol has no keys: it is one of `tenant`.

        Raises Unauthorized or Forbidden if keys are needed and `tenant` has none for `scope`.
        """
        return self._of(self._keys.named(tenant, scope))

    def tenant(self, name: str, scope: Scope) -> ClientAccount:
        """Return the client that has sent a job; its key was checked then, and is not stored.

        Raises Unauthorized or Forbidden if the tenant has no key for `scope` any more.
        """
        try:
            return self.keyless(name, scope)
        except Unauthorized:
            raise Unauthorized("the API key that sent this job was withdrawn") from None

    async def follow_peers(self) -> None:
        """Follow the audio that other frontends charge to keys, until cancelled."""
        await self.peers.follow(lambda: self._keys.rated, self._charged_elsewhere)

    def _charged_elsewhere(self, tenant: str, seconds: float) -> None:
        key = self._keys.entry(tenant)
        if key is not None:
            self._clients.of(key, others=self._keys.has_other(key, "live")).charged_elsewhere(
                seconds
            )

    def _with_key(self, secret: str | None, scope: Scope | None) -> ClientAccount:
        key = self._keys.find(secret, scope)
        if key is not ANYONE:
            shown_key()
        return self._of(key)

    def _of(self, key: ApiKey) -> ClientAccount:
        identified(key.name)
        return self._clients.of(key, others=self._keys.has_other(key, "live"))

    def replace(self, keys: Sequence[ApiKey]) -> int:
        """Use these keys from now on; limits of clients that stay change in place.

        Returns how many sessions end because their key was withdrawn.
        """
        self._keys.replace(keys)
        return self.review()

    def review(self) -> int:
        """End the sessions whose key may no longer be used, and return how many those are."""
        return self._clients.review(self._keys.current)


def accepted_subprotocol(headers: Mapping[str, str], known: Sequence[str]) -> str | None:
    """Return the subprotocol to accept: the first offered one that is `known`, or the key's own.

    A browser closes a connection whose server accepts none of the offered subprotocols. If it
    offers only a key, that entry is accepted. Raises BadRequest if the header is too long.
    """
    offered = _offered(headers)
    keys = (name for name in offered if name.startswith(_SUBPROTOCOL_KEY))
    return next((name for name in offered if name in known), next(keys, None))


def _secret(headers: Mapping[str, str]) -> str | None:
    scheme, _, secret = headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() in _SCHEMES and secret.strip():
        return secret.strip()
    if scheme and not secret and scheme.lower() not in _SCHEMES:
        return scheme  # AssemblyAI's clients send the key alone
    if vapi := headers.get(_VAPI, "").strip():
        return vapi
    offered = _offered(headers)
    for name in offered:
        if name.startswith(_SUBPROTOCOL_KEY):
            return name.removeprefix(_SUBPROTOCOL_KEY)
    return offered[1] if offered[0].lower() in _SCHEMES and len(offered) == 2 else None


def _offered(headers: Mapping[str, str]) -> list[str]:
    offered = headers.get("sec-websocket-protocol", "")
    if len(offered) > OFFERED_PROTOCOLS:
        raise BadRequest(
            f"Sec-WebSocket-Protocol has {len(offered)} characters, "
            f"at most {OFFERED_PROTOCOLS} are allowed"
        )
    return [name.strip() for name in offered.split(",")]


def access_of(settings: FrontendSettings) -> Access:
    """Return the access rules of these settings.

    Raises SettingsError for keys that cannot be read, and for settings that need missing keys.
    """
    access = Access(load_keys(settings.api_keys_file))
    if settings.metrics_need_key and not access.needs_keys:
        raise SettingsError(
            "Frontend.metrics_need_key is set without API keys; set Frontend.api_keys_file"
        )
    return access


def check_keyless(settings: FrontendSettings, access: Access) -> None:
    """Raise SettingsError if clients without keys could not be admitted, or lose their text."""
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
            "Frontend.keyless_tenant is set without API keys; set Frontend.api_keys_file"
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
            f"Frontend.keyless_tenant {tenant!r} admits no client: {error.for_client}"
        ) from None
