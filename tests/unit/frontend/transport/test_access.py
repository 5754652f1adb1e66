"""API keys and their scopes."""

import asyncio
import hashlib
from pathlib import Path

import pytest
from click.testing import CliRunner

from auricle.cli import main
from auricle.core.errors import Forbidden, RateLimited, SettingsError, TooLarge, Unauthorized
from auricle.frontend.transport.access.gate import Access, accepted_subprotocol
from auricle.frontend.transport.access.keys import ANYONE, ApiKey, KeyRing, new_key
from auricle.frontend.transport.access.keys_file import load_keys
from auricle.frontend.transport.access.limits import ClientAccount
from tests.fakes.clock import Clock

pytestmark = pytest.mark.unit
DIGEST = hashlib.sha256(b"secret").hexdigest()


def key(**values: object) -> ApiKey:
    return ApiKey.model_validate({"name": "acme", "sha256": DIGEST, **values})


def test_without_keys_everybody_is_the_default_tenant() -> None:
    assert load_keys(None, "").find(None).name == "default"


def test_a_key_is_found_by_its_digest() -> None:
    assert KeyRing([key()]).find("secret").name == "acme"


@pytest.mark.parametrize(
    ("secret", "message"),
    [
        (None, "no API key; send it as 'Authorization: Bearer KEY'"),
        ("", "no API key; send it as 'Authorization: Bearer KEY'"),
        ("other", "this API key is not known here"),
    ],
)
def test_no_key_or_an_unknown_one_is_refused(secret: str | None, message: str) -> None:
    with pytest.raises(Unauthorized, match=f"^{message}$"):
        KeyRing([key()]).find(secret)


def test_a_key_that_is_switched_off_is_forbidden() -> None:
    with pytest.raises(Forbidden, match=r"^this API key is switched off$"):
        KeyRing([key(enabled=False)]).find("secret")


def test_a_new_key_opens_what_its_entry_admits_and_is_not_in_it() -> None:
    secret, entry = new_key("acme")
    assert KeyRing([entry]).find(secret) == entry
    assert secret not in entry.model_dump_json()


def test_keys_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys.yaml"
    file.write_text(f"keys:\n- {{name: acme, sha256: {DIGEST}, max_sessions: 2}}\n")
    assert load_keys(file, "").find("secret").max_sessions == 2


def test_priorities_of_keys_are_in_the_order_of_their_names() -> None:
    ranks = [key(priority=priority).rank for priority in ("low", "normal", "high")]
    assert ranks == sorted(ranks)
    assert key().rank == key(priority="normal").rank == ANYONE.rank


def test_a_file_of_what_the_command_prints_is_read(tmp_path: Path) -> None:
    secrets = {}
    file = tmp_path / "keys.yaml"
    with file.open("w") as out:
        for name, options in (("alice", []), ("bob", ["--entry"])):
            made = CliRunner().invoke(main, ["key", name, *options])
            out.write(made.stdout)
            secrets[name] = made.stderr.partition("client: ")[2].strip()
    ring = load_keys(file, "")
    assert [ring.find(secrets[name]).name for name in ("alice", "bob")] == ["alice", "bob"]


@pytest.mark.parametrize("text", ["", "- {name: acme}\n", "acme\n", "key: []\n"])
def test_a_file_of_another_form_is_told_the_right_one(tmp_path: Path, text: str) -> None:
    file = tmp_path / "keys.yaml"
    file.write_text(text)
    with pytest.raises(
        SettingsError, match=r"(?s)keys\.yaml has .*auricle key NAME.*keys:\n- name"
    ):
        load_keys(file, "")


def test_keys_are_read_from_the_environment() -> None:
    assert load_keys(None, f"acme={DIGEST}, other={'0' * 64}").find("secret").name == "acme"


@pytest.mark.parametrize(
    ("text", "environment", "message"),
    [
        ("keys: [{name: acme}]", "", r"keys\.0\.sha256: Field required"),
        ("keys: [{name: a, sha256: abc}]", "", r"keys\.0\.sha256: String should match"),
        (f"keys: [{{name: a, sha256: {DIGEST}, rate: 1}}]", "", r"keys\.0\.rate: Extra inputs"),
        (f"keys: [{{name: a, sha256: {DIGEST}}}, {{name: a, sha256: {DIGEST}}}]", "", "called a"),
        ("keys: [", "", "cannot be read"),
        ("keys: []", "a=1", "both set; use one"),
    ],
)
def test_a_wrong_key_file_names_what_is_wrong(
    tmp_path: Path, text: str, environment: str, message: str
) -> None:
    file = tmp_path / "keys.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=message):
        load_keys(file, environment)


def test_a_key_comes_in_a_header_or_in_a_websocket_subprotocol() -> None:
    access = Access(KeyRing([key()]))
    browser = {"sec-websocket-protocol": "realtime, openai-insecure-api-key.secret"}
    assert access.client({"authorization": "Bearer secret"}) is access.client(browser)
    alone = {"sec-websocket-protocol": "openai-insecure-api-key.secret"}
    assert access.client(alone) is access.client(browser)
    with pytest.raises(Unauthorized):
        access.client({"authorization": "Basic secret"})


@pytest.mark.parametrize(
    ("offered", "accepted"),
    [
        ("", None),
        ("other", None),
        ("realtime, openai-insecure-api-key.secret", "realtime"),
        ("openai-insecure-api-key.secret, realtime", "realtime"),
        ("openai-insecure-api-key.secret", "openai-insecure-api-key.secret"),
        ("other, openai-insecure-api-key.secret", "openai-insecure-api-key.secret"),
    ],
)
def test_a_browser_that_offers_its_key_gets_one_of_its_subprotocols(
    offered: str, accepted: str | None
) -> None:
    """A browser closes the connection if the server accepts none of the offered subprotocols."""
    headers = {"sec-websocket-protocol": offered} if offered else {}
    assert accepted_subprotocol(headers, ["realtime"]) == accepted


async def test_a_client_has_so_many_sessions_and_no_more() -> None:
    client = ClientAccount(key(max_sessions=1))
    async with client.session():
        with pytest.raises(RateLimited, match="this API key has 1 sessions open") as refused:
            async with client.session():
                pass
        assert refused.value.retry_after_seconds > 0
    async with client.session():
        pass


async def test_audio_may_be_heard_ahead_for_a_minute_and_then_at_the_rate() -> None:
    clock = Clock()
    client = ClientAccount(key(audio_minutes_per_minute=2.0), clock)
    assert client.spend(120.0) == 0.0
    assert client.spend(10.0) == 5.0  # overdrawn by 10 s, refilled at 2 s per second
    with pytest.raises(RateLimited, match="2 minutes of audio per minute") as refused:
        async with client.session():
            pass
    assert refused.value.retry_after_seconds == 5.0
    clock.now += 5.0
    async with client.session():
        pass


async def test_who_has_used_up_its_audio_gets_no_new_session_and_is_held_back() -> None:
    clock = Clock()
    client = ClientAccount(key(audio_minutes_per_minute=1.0), clock)
    async with client.session():
        held_back = asyncio.create_task(client.charge(3660.0))
        await asyncio.sleep(0)
        assert not held_back.done()
        held_back.cancel()
        with pytest.raises(RateLimited):
            async with client.session():
                pass


@pytest.mark.parametrize(("own", "allowed"), [(None, 1000), (10, 10), (5000, 1000)])
def test_a_request_is_bounded_by_the_server_and_by_its_key(own: int | None, allowed: int) -> None:
    client = ClientAccount(key(max_request_bytes=own))
    client.check_size(allowed, 1000)
    with pytest.raises(TooLarge, match=f"larger than the {allowed} bytes"):
        client.check_size(allowed + 1, 1000)
