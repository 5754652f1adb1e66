"""A process accepts a message once, if the sender has the secret and it is the receiver."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle.config.settings import CommonSettings
from auricle.core.errors import SettingsError, UntrustedCaller
from auricle.dynamo.secrets import SECRET_FILE, Secrets, secrets_of
from auricle.dynamo.signing import LIFETIME_SECONDS, ReplayGuard, Signer, Verifier, clock_of
from tests.fakes.clock import Clock

pytestmark = pytest.mark.unit
ONE, TWO = "1" * 64, "2" * 64
WORKER = "auricle.pd_worker.generate/7f"


def written(path: Path, *secrets: str, mode: int = 0o600) -> Path:
    path.write_text("".join(f"{secret}\n" for secret in secrets))
    path.chmod(mode)
    return path


@pytest.fixture
def clock() -> Clock:
    return Clock(1_000.0)


@pytest.fixture
def secrets(tmp_path: Path, clock: Clock) -> Secrets:
    return Secrets(written(tmp_path / "secrets", ONE), "Common.secret_file", clock)


def refusal(opener: Verifier, sealed: bytes) -> str:
    with pytest.raises(UntrustedCaller) as caught:
        opener.open(sealed)
    return caught.value.reason


# ── seals ───────────────────────────────────────────────────────────────────


def test_a_sealed_message_is_opened_by_its_receiver(secrets: Secrets, clock: Clock) -> None:
    sealer, opener = Signer(secrets, clock), Verifier(secrets, WORKER, clock)
    for message in (b"", b"a message", bytes(100_000)):
        assert opener.open(sealer.seal(message, WORKER)) == message


@pytest.mark.parametrize("receiver", ["auricle.pd_worker.generate/80", "auricle.pd_worker.end/7f"])
def test_a_message_to_another_instance_or_endpoint_is_refused(
    secrets: Secrets, clock: Clock, receiver: str
) -> None:
    sealed = Signer(secrets, clock).seal(b"a message", receiver)
    assert refusal(Verifier(secrets, WORKER, clock), sealed) == "mac"


def test_no_bit_of_a_sealed_message_may_be_changed(secrets: Secrets, clock: Clock) -> None:
    """The bits include tenant, session and time."""
    sealed = Signer(secrets, clock).seal(b"tenant", WORKER)
    opener = Verifier(secrets, WORKER, clock)
    for bit in range(8 * len(sealed)):
        changed = bytearray(sealed)
        changed[bit // 8] ^= 1 << bit % 8
        assert refusal(opener, bytes(changed)) == ("mac")
    assert opener.open(sealed) == b"tenant"


def test_what_is_not_sealed_is_refused(secrets: Secrets, clock: Clock) -> None:
    opener = Verifier(secrets, WORKER, clock)
    for garbage in (b"", b"\x01", bytes(40)):
        assert refusal(opener, garbage) == "malformed"
    for garbage in (bytes(41), random.Random(1).randbytes(200)):
        assert refusal(opener, garbage) == "mac"


def test_who_has_another_secret_or_none_is_refused(
    secrets: Secrets, clock: Clock, tmp_path: Path
) -> None:
    others = Secrets(written(tmp_path / "other", TWO), "Common.secret_file", clock)
    opener = Verifier(secrets, WORKER, clock)
    for caller in (others, Secrets(None, "Common.secret_file")):
        assert refusal(opener, Signer(caller, clock).seal(b"m", WORKER)) == "mac"


def test_a_message_is_accepted_once(secrets: Secrets, clock: Clock) -> None:
    sealed = Signer(secrets, clock).seal(b"m", WORKER)
    opener = Verifier(secrets, WORKER, clock)
    opener.open(sealed)
    assert refusal(opener, sealed) == "repeated"


def test_an_old_message_is_refused(secrets: Secrets, clock: Clock) -> None:
    sealed = Signer(secrets, clock).seal(b"m", WORKER)
    clock.now += LIFETIME_SECONDS + 0.1
    assert refusal(Verifier(secrets, WORKER, clock), sealed) == "expired"
    clock.now -= 2 * LIFETIME_SECONDS + 0.2
    assert refusal(Verifier(secrets, WORKER, clock), sealed) == "expired"


def test_on_one_machine_a_clock_that_is_set_refuses_nothing(
    secrets: Secrets, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This includes a clock that was set before some of the processes started."""
    clock = clock_of(CommonSettings())
    sealer, opener = Signer(secrets, clock), Verifier(secrets, WORKER, clock)
    now = time.time()
    for jump in (3600.0, -3600.0):
        monkeypatch.setattr("time.time", lambda jump=jump: now + jump)
        assert opener.open(sealer.seal(b"m", WORKER)) == b"m"
        assert opener.open(Signer(secrets, clock).seal(b"m", WORKER)) == b"m"


def test_between_machines_the_wall_clock_counts() -> None:
    assert clock_of(CommonSettings(discovery="etcd")) is time.time


def test_without_secrets_messages_are_taken_from_anybody(clock: Clock) -> None:
    none = Secrets(None, "Common.secret_file")
    assert Verifier(none, WORKER, clock).open(Signer(none, clock).seal(b"m", WORKER)) == b"m"


# ── repeated messages ───────────────────────────────────────────────────────


@given(st.lists(st.integers(0, 9_000), max_size=60))
def test_a_number_is_new_once_in_whatever_order_numbers_come(numbers: list[int]) -> None:
    guard = ReplayGuard(10.0)
    seen: set[int] = set()
    for number in numbers:
        new = guard.is_new(b"sender", number, 0.0)
        late = bool(seen) and max(seen) - number >= 4_096
        assert new == (number not in seen and not late)
        seen.add(number)


def test_senders_are_told_apart_and_forgotten_when_they_are_silent() -> None:
    guard = ReplayGuard(10.0)
    assert guard.is_new(b"one", 5, 0.0)
    assert guard.is_new(b"two", 5, 9.0)
    assert not guard.is_new(b"one", 5, 9.0)
    assert guard.is_new(b"three", 5, 19.5)
    assert len(guard) == 1


# ── secrets ─────────────────────────────────────────────────────────────────


def test_a_secret_is_exchanged_without_a_restart(tmp_path: Path, clock: Clock) -> None:
    path = written(tmp_path / "secrets", ONE)
    caller, worker = (Secrets(path, "Common.secret_file", clock) for _ in range(2))
    sealer, opener = Signer(caller, clock), Verifier(worker, WORKER, clock)
    for lines in ([ONE, TWO], [TWO, ONE], [TWO]):
        before = sealer.seal(b"m", WORKER)
        written(path, *lines)
        clock.now += 1.5
        assert opener.open(sealer.seal(b"m", WORKER)) == b"m"
        if ONE in lines:
            assert opener.open(before) == b"m"
    assert len(worker.keys) == 1


@pytest.mark.parametrize("content", [None, "", "short\n"])
def test_a_file_that_becomes_wrong_leaves_the_secrets_as_they_were(
    tmp_path: Path, clock: Clock, content: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    path = written(tmp_path / "secrets", ONE)
    secrets = Secrets(path, "Common.secret_file", clock)
    before = secrets.keys
    path.unlink()
    if content is not None:
        written(path, content)
    for _ in range(3):
        clock.now += 1.5
        assert secrets.keys == before
    assert len(caplog.records) == 1
    assert "Common.secret_file" in caplog.text


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        (None, 0o600, "cannot read Common.secret_file .*: No such file"),
        ("", 0o600, "has no secret"),
        ("# a comment\n", 0o600, "has no secret"),
        ("x" * 31, 0o600, "fewer than 32 characters"),
        (f"{ONE}\nhunter2", 0o600, "fewer than 32 characters"),
        (ONE, 0o644, "has mode 644: other users may read"),
        (ONE, 0o620, "has mode 620"),
    ],
)
def test_a_wrong_file_is_one_clear_error_without_the_secret(
    tmp_path: Path, content: str | None, mode: int, said: str
) -> None:
    path = tmp_path / "secrets"
    if content is not None:
        written(path, content, mode=mode)
    with pytest.raises(SettingsError, match=said) as caught:
        Secrets(path, "Common.secret_file")
    assert "hunter2" not in str(caught.value)


def test_a_group_may_read_a_mounted_secret(tmp_path: Path) -> None:
    assert Secrets(written(tmp_path / "secrets", ONE, mode=0o440), "Common.secret_file").keys


def test_processes_of_one_machine_share_a_secret_that_the_first_one_makes(tmp_path: Path) -> None:
    settings = CommonSettings(discovery_path=tmp_path / "discovery")
    first, second = secrets_of(settings), secrets_of(settings)
    assert first.keys == second.keys
    assert len(first.keys) == 1
    made = list((tmp_path / "discovery").iterdir())
    assert [(path.name, path.stat().st_mode & 0o777) for path in made] == [(SECRET_FILE, 0o600)]


@pytest.mark.parametrize("discovery", ["etcd", "kubernetes"])
def test_between_machines_a_secret_must_be_named(discovery: str, tmp_path: Path) -> None:
    settings = CommonSettings.model_validate({"discovery": discovery})
    with pytest.raises(SettingsError, match=r"Common\.secret_file is not set"):
        secrets_of(settings)
    named = settings.model_copy(update={"secret_file": written(tmp_path / "secrets", ONE)})
    assert secrets_of(named).keys


def test_a_deployment_may_go_without_if_it_says_so(caplog: pytest.LogCaptureFixture) -> None:
    settings = CommonSettings(discovery="etcd", insecure_internal=True)
    assert secrets_of(settings).keys == ()
    assert "Common.insecure_internal" in caplog.text
