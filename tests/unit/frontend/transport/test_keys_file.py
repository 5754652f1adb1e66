"""The keys file while the server runs: replaced, swapped, written in place, broken, removed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from auricle.cli import main
from auricle.core.aio import cancelled
from auricle.core.errors import AuricleError, Forbidden, RateLimited, SettingsError, Unauthorized
from auricle.frontend.transport.access.gate import Access
from auricle.frontend.transport.access.keys import ApiKey, KeyRing, new_key
from auricle.frontend.transport.access.keys_file import KeysFile, load_keys
from auricle.frontend.transport.access.limits import ClientAccount

pytestmark = pytest.mark.unit
NOW = datetime(2026, 7, 1, tzinfo=UTC)


def written(file: Path, *names: str) -> None:
    lines = [f"- {{name: {name}, sha256: '{ord(name[0]):064x}'}}" for name in names]
    file.write_text("\n".join(["keys:", *lines]) + "\n" if names else "keys: []\n")


def names(keys: Sequence[ApiKey] | None) -> list[str] | None:
    return None if keys is None else [key.name for key in keys]


# ── reading the file ───────────────────────────────────────────────────────


def test_a_file_that_stays_is_read_once(tmp_path: Path) -> None:
    written(tmp_path / "keys", "a")
    watched = KeysFile(tmp_path / "keys")
    assert [watched.changed_keys() for _ in range(3)] == [None, None, None]


def test_an_atomic_replacement_is_seen(tmp_path: Path) -> None:
    file, other = tmp_path / "keys", tmp_path / "new"
    written(file, "a")
    watched = KeysFile(file)
    written(other, "b")
    other.rename(file)
    assert [names(watched.changed_keys()) for _ in range(3)] == [None, ["b"], None]


def test_the_exchange_of_a_link_is_seen(tmp_path: Path) -> None:
    """As in Kubernetes: keys → ..data/keys, and ..data → a folder, which is swapped."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        written(tmp_path / name / "keys", name)
    (tmp_path / "..data").symlink_to("first")
    (tmp_path / "keys").symlink_to("..data/keys")
    watched = KeysFile(tmp_path / "keys")
    (tmp_path / "..data_tmp").symlink_to("second")
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")
    assert [names(watched.changed_keys()) for _ in range(3)] == [None, ["second"], None]


def test_a_file_that_is_being_written_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    written(file, "a", "b")
    watched = KeysFile(file)
    written(file)  # the first half of it would withdraw every key
    assert watched.changed_keys() is None
    written(file, "a", "b", "c")
    assert watched.changed_keys() is None
    assert names(watched.changed_keys()) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "has nothing"),
        ("keys: [", "cannot be read: not valid YAML in line 1"),
        ("keys: [{name: a, sha256: auricle-secret}]", r"keys\.0\.sha256: String should match"),
        (f"keys: [{{name: a, sha256: {'f' * 64}, expires: 2027-01-01}}]", "keys.0.expires"),
        (f"keys: [{{name: a, sha256: {'f' * 64}, scopes: [all]}}]", "keys.0.scopes"),
        (f"keys: [{{name: a, sha256: {'f' * 64}, scopes: []}}]", "keys.0.scopes"),
        (
            f"keys: [{{name: a, sha256: {'f' * 64}, priority: urgent}}]",
            "keys.0.priority: Input should be 'low', 'normal' or 'high'",
        ),
        (
            f"keys: [{{name: a, sha256: {'f' * 64}}}, {{name: b, sha256: {'f' * 64}}}]",
            "a and b have the same sha256",
        ),
        (None, "cannot be read: No such file"),
    ],
)
def test_a_broken_file_is_named_once_without_what_it_holds(
    tmp_path: Path, content: str | None, said: str
) -> None:
    file = tmp_path / "keys"
    written(file, "a")
    watched = KeysFile(file)
    file.unlink()
    if content is not None:
        file.write_text(content)
    assert watched.changed_keys() is None
    with pytest.raises(SettingsError, match=said) as wrong:
        watched.changed_keys()
    assert "auricle-secret" not in str(wrong.value)
    assert watched.changed_keys() is None
    written(file, "b")
    assert [names(watched.changed_keys()) for _ in range(2)] == [None, ["b"]]


class Taken:
    """Accepts keys, and records them."""

    def __init__(self) -> None:
        self.keys: asyncio.Queue[list[str] | None] = asyncio.Queue()
        self.reviews = asyncio.Semaphore(0)

    def replace(self, keys: Sequence[ApiKey]) -> int:
        self.keys.put_nowait(names(keys))
        return 0

    def review(self) -> int:
        self.reviews.release()
        return 0


async def test_a_broken_file_keeps_the_keys_and_logs_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, taken = tmp_path / "keys", Taken()
    written(file, "a")
    following = asyncio.create_task(KeysFile(file).follow(taken, 0.0))
    async with asyncio.timeout(60):
        file.write_text("- nonsense\n")
        while not caplog.messages:
            await taken.reviews.acquire()
        for _ in range(10):
            await taken.reviews.acquire()
        assert taken.keys.empty()
        (line,) = caplog.messages
        assert line.startswith(f"the old API keys stay: {file} has no line `keys:`")
        assert "\n" not in line
        written(file, "b", "c")
        assert await taken.keys.get() == ["b", "c"]
    await cancelled([following])


# ── effects on sessions ─────────────────────────────────────────────────────


def entry(name: str, **values: object) -> tuple[str, ApiKey]:
    secret, made = new_key(name)
    return secret, made.model_copy(update=values)


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


async def held(client: ClientAccount, begun: asyncio.Event) -> None:
    async with client.session("live"):
        begun.set()
        await asyncio.Event().wait()


async def running(client: ClientAccount) -> asyncio.Task[None]:
    begun = asyncio.Event()
    task = asyncio.create_task(held(client, begun))
    await begun.wait()
    return task


async def test_only_sessions_of_a_withdrawn_key_end() -> None:
    (secret, withdrawn), (kept_secret, kept) = entry("acme"), entry("globex")
    access = Access(KeyRing([withdrawn, kept]))
    ending = await running(access.client(bearer(secret), "live"))
    staying = await running(access.client(bearer(kept_secret), "live"))
    assert access.replace([kept]) == 1
    with pytest.raises(Unauthorized, match="this API key was withdrawn"):
        await ending
    assert access.review() == 0
    assert not staying.done()
    with pytest.raises(Unauthorized, match="not known here"):
        access.client(bearer(secret), "live")
    await cancelled([staying])


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        ({"enabled": False}, Forbidden, "this API key is switched off"),
        ({"expires": NOW}, Unauthorized, "this API key has expired"),
        ({"scopes": frozenset({"recordings"})}, Forbidden, "not for live; its scopes: recordings"),
        ({"sha256": "f" * 64}, Unauthorized, "this API key was withdrawn"),
        ({"name": "other"}, Unauthorized, "this API key was withdrawn"),
    ],
)
async def test_a_key_that_may_no_longer_be_used_ends_its_sessions(
    change: dict[str, object], kind: type[AuricleError], said: str
) -> None:
    secret, made = entry("acme")
    access = Access(KeyRing([made]))
    client = access.client(bearer(secret), "live")
    task = await running(client)
    assert access.replace([made.model_copy(update=change)]) == 1
    with pytest.raises(kind, match=said):
        await task
    with pytest.raises(kind, match=said):  # admitted before, begun after
        async with client.session("live"):
            pass


async def test_a_key_expires_in_mid_session() -> None:
    now = NOW
    secret, made = entry("acme", expires=NOW + timedelta(seconds=1))
    client = ClientAccount(made, now=lambda: now)
    task = await running(client)
    assert client.review(made) == 0
    now += timedelta(seconds=1)
    assert client.review(made) == 1
    assert client.review(made) == 0
    with pytest.raises(Unauthorized, match="has expired"):
        await task
    with pytest.raises(Unauthorized, match="has expired"):
        KeyRing([made], lambda: now).find(secret)


async def test_limits_of_a_client_that_stays_change_in_place() -> None:
    secret, made = entry("acme", max_sessions=1, audio_minutes_per_minute=1.0)
    access = Access(KeyRing([made]))
    client = access.client(bearer(secret), "live")
    task = await running(client)
    client.spend(60.0)
    access.replace([made.model_copy(update={"max_sessions": 2, "audio_minutes_per_minute": 2.0})])
    assert access.client(bearer(secret)) is client
    second = await running(client)
    with pytest.raises(RateLimited, match="2 sessions open"):
        await held(client, asyncio.Event())
    assert client.spend(61.0) == pytest.approx(0.5, abs=0.1)  # used tokens stay used
    access.replace([made.model_copy(update={"audio_minutes_per_minute": None})])
    assert client.spend(10_000.0) == 0.0
    assert not task.done()
    await cancelled([task, second])


async def test_a_session_that_fails_by_itself_says_so_and_no_more_of_keys() -> None:
    _, made = entry("acme")
    client = ClientAccount(made)
    with pytest.raises(TimeoutError, match="mine"):
        async with client.session("live"):
            raise TimeoutError("mine")
    task = await running(client)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert client.review(None) == 0
    assert client.idle


async def test_a_client_without_key_and_session_is_forgotten() -> None:
    secret, made = entry("acme")
    access = Access(KeyRing([made]))
    task = await running(access.client(bearer(secret), "live"))
    access.replace([])
    with suppress(Unauthorized):
        await task
    access.review()
    assert not access._clients._clients


# ── scopes ──────────────────────────────────────────────────────────────────


def test_a_key_is_for_its_scopes_only() -> None:
    secret, made = entry("acme", scopes=frozenset({"recordings"}))
    ring = KeyRing([made])
    assert ring.find(secret, "recordings") is made
    assert ring.find(secret) is made
    with pytest.raises(Forbidden, match="this API key is not for live; its scopes: recordings"):
        ring.find(secret, "live")


def test_by_default_a_key_is_for_clients_and_not_for_operations() -> None:
    secret, made = entry("acme")
    for scope in ("live", "recordings"):
        assert KeyRing([made]).find(secret, scope) is made  # type: ignore[arg-type]
    with pytest.raises(Forbidden):
        KeyRing([made]).find(secret, "operations")


def test_the_command_makes_keys_with_scopes_that_expire(tmp_path: Path) -> None:
    options = ["--expires", "2027-01-01T00:00:00Z", "--scopes", "operations,live"]
    made = CliRunner().invoke(main, ["key", "acme", *options])
    assert made.exit_code == 0
    (tmp_path / "keys").write_text(made.stdout)
    secret = made.stderr.split()[-1]
    ring = load_keys(tmp_path / "keys", "")
    found = ring.find(secret, "operations")
    assert found.expires == datetime(2027, 1, 1, tzinfo=UTC)
    assert found.scopes == {"live", "operations"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--expires", "2027-01-01"], "expires '2027-01-01'"),
        (["--expires", "soon"], "expires 'soon'"),
        (["--scopes", "live,all"], "scopes 'live,all'"),
    ],
)
def test_the_command_names_what_is_wrong(options: list[str], said: str) -> None:
    made = CliRunner().invoke(main, ["key", "acme", *options])
    assert made.exit_code == 2
    assert said in made.stderr
