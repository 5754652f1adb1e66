"""Messages of earlier versions decode, and a changed message needs another version of the wire.

After a change of a message, run `python -m tests.wire`.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec import defstruct

from auricle.core.errors import OtherWireVersion
from auricle.dynamo.local.frames import Frame, FrameReader, Kind, packed
from auricle.dynamo.secrets import Secrets
from auricle.dynamo.signing import Signer, Verifier
from auricle.embeddings.layout import SlabLayout
from auricle.protocol import OLDEST_WIRE, WIRE
from tests import wire
from tests.fakes.clock import Clock

pytestmark = pytest.mark.unit
VERSIONS = sorted(int(path.stem) for path in wire.SAMPLES.glob("*.json"))


def test_there_are_samples_of_every_version() -> None:
    assert list(range(1, WIRE + 1)) == VERSIONS, "run `python -m tests.wire`"
    assert 1 <= OLDEST_WIRE <= WIRE


def test_messages_change_only_with_the_version() -> None:
    before, now = wire.stored(WIRE), wire.recorded(wire.messages())
    broken = list(wire.breaks(before, now))
    assert not broken, f"{broken}: raise WIRE, see components/auricle/protocol/__init__.py"
    for name, shape in now.items():
        known = before.get(name, {"fields": {}})
        assert known["fields"] == shape["fields"], f"{name}: run `python -m tests.wire`"


@pytest.mark.parametrize("version", VERSIONS)
def test_samples_decode_for_ever(version: int) -> None:
    stored = wire.stored(version)
    kinds = wire.messages() if version >= OLDEST_WIRE else wire.OF_ALL_VERSIONS
    checked = 0
    for kind in kinds:
        for sample in stored.get(kind.__name__, {}).get("samples", []):
            wire.check_sample(kind, sample)
            checked += 1
    assert checked >= 2 * len(wire.OF_ALL_VERSIONS)


# ── a change is found ───────────────────────────────────────────────────────

FIELDS = [("name", str), ("size", int, 0)]
OLD = defstruct("Message", FIELDS, tag=True)
COMPATIBLE = {
    "last": defstruct("Message", [*FIELDS, ("more", str, "")], tag=True),
    "between": defstruct("Message", [FIELDS[0], ("more", int, 0), FIELDS[1]], tag=True),
}
OTHER_VERSION = {
    "name was removed": defstruct("Message", FIELDS[1:], tag=True),
    "size was": defstruct("Message", [FIELDS[0], ("size", str, "")], tag=True),
    "name was": defstruct("Message", [("name", str, ""), FIELDS[1]], tag=True),
    "more is new": defstruct("Message", [FIELDS[0], ("more", int), FIELDS[1]], tag=True),
    "another tag": defstruct("Message", FIELDS, tag="other"),
    "or form": defstruct("Message", FIELDS, tag=True, array_like=True),
    "Message was removed": defstruct("Renamed", FIELDS, tag=True),
    "new message": defstruct("Further", [], tag=True),
}


@pytest.mark.parametrize("where", COMPATIBLE)
def test_another_field_with_a_default_keeps_the_version(where: str) -> None:
    before, new = wire.recorded([OLD]), COMPATIBLE[where]
    assert not list(wire.breaks(before, wire.recorded([new])))
    for sample in wire.samples(OLD):  # the new process reads messages of the old one
        wire.check_sample(new, sample)
    for sample in wire.samples(new):  # and the old process reads messages of the new one
        msgspec.msgpack.decode(bytes.fromhex(sample), type=OLD)


@pytest.mark.parametrize("change", OTHER_VERSION)
def test_any_other_change_needs_another_version(change: str) -> None:
    new = OTHER_VERSION[change]
    kinds = [OLD, new] if new.__name__ == "Further" else [new]
    assert change in " ".join(wire.breaks(wire.recorded([OLD]), wire.recorded(kinds)))


def test_a_field_in_the_middle_of_an_array_needs_another_version() -> None:
    fields = [("a", int), ("b", int, 0)]
    old = wire.recorded([defstruct("Message", fields, array_like=True)])
    last = defstruct("Message", [*fields, ("c", int, 0)], array_like=True)
    middle = defstruct("Message", [fields[0], ("c", int, 0), fields[1]], array_like=True)
    assert not list(wire.breaks(old, wire.recorded([last])))
    assert list(wire.breaks(old, wire.recorded([middle])))


def test_a_sample_with_an_ignored_value_is_found() -> None:
    renamed = defstruct("Message", [FIELDS[0], ("length", int, 0)], tag=True)
    with pytest.raises(AssertionError, match="size is ignored"):
        wire.check_sample(renamed, wire.samples(OLD)[0])


# ── what carries the messages ───────────────────────────────────────────────

RECEIVER, AT = "auricle.pd_worker.generate/7f", 1_000.0
SEALED = bytes.fromhex(
    "0142c9dc8bab0e40b60000000000000000000f424000000000"  # header
    "e49043aa4417a34c13af460c5746394c"  # pragma: allowlist secret (MAC)
    "61206d657373616765"
)


@pytest.fixture
def secrets(tmp_path: Path) -> Secrets:
    path = tmp_path / "secrets"
    path.write_text("5" * 64)
    path.chmod(0o600)
    return Secrets(path, "Common.secret_file")


def test_a_message_that_was_sealed_earlier_is_opened(secrets: Secrets) -> None:
    verifier = Verifier(secrets, RECEIVER, Clock(AT), any_wire=True)
    assert verifier.open(SEALED) == b"a message"


@pytest.mark.parametrize("version", [OLDEST_WIRE - 1, WIRE + 1])
def test_a_request_of_another_version_is_refused_by_name(version: int) -> None:
    unsigned = Secrets(None, "Common.secret_file")
    sealed = Signer(unsigned, Clock(AT)).seal(b"a message", RECEIVER)
    other = bytes([version]) + sealed[1:]
    with pytest.raises(OtherWireVersion, match=f"has version {version} of the wire") as refused:
        Verifier(unsigned, RECEIVER, Clock(AT)).open(other)
    assert f"versions {OLDEST_WIRE} to {WIRE}" in str(refused.value)
    about_itself = Verifier(unsigned, RECEIVER, Clock(AT), any_wire=True)
    assert about_itself.open(other) == b"a message"


def test_frames_and_headers_of_slots_have_the_form_of_version_1() -> None:
    call = packed(Kind.CALL, 7, b"a.b.c", b"\0", b"sealed")
    assert call.hex() == "000000110100000007612e622e63007365616c6564"
    assert FrameReader().feed(call) == [Frame(Kind.CALL, 7, b"a.b.c\0sealed")]
    header = SlabLayout(width=8, item_bytes=4, max_length=104).header("ab" * 24, 5, 104, 9)
    assert header.tobytes().hex() == (
        f"4155524904000000{'ab' * 24}0500000000000000680000000800000004000000"
        "090000000100000000000000"
    )
