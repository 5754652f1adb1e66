"""Features that clients compute themselves: the same windows as from samples."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auricle.audio.features import FeaturePacket, check_features, pack, unpack
from auricle.audio.mel import IncrementalLogMel
from auricle.audio.pcm import Int16, to_float
from auricle.audio.segmentation import SegmentLimits
from auricle.core.errors import ProtocolError
from auricle.frontend.audio.chunks import AudioChunk, AudioEvent, FeatureChunk
from auricle.frontend.audio.ingest import FeatureIngest
from auricle.processor.session.windows import KeyScheme, SegmentAudio
from examples.log_mel_client import GRID, FeatureSender
from tests.fakes.workers import VIEW

pytestmark = pytest.mark.unit
LIMITS = SegmentLimits.from_seconds(pause_after=8, maximum=20, search=3)
FRAMES = (np.arange(2 * 128, dtype=np.float32) / 32 - 4).reshape(2, 128)


def segment() -> SegmentAudio:
    return SegmentAudio(VIEW.geometry, KeyScheme(VIEW.fingerprint, "float32", "t"))


def noise(samples: int, seed: int, loudness: int = 3_000) -> Int16:
    values = np.random.default_rng(seed).integers(-loudness, loudness, samples)
    return values.astype(np.int16)


@settings(max_examples=15, deadline=None)
@given(
    samples=st.integers(1_700, 6 * GRID),
    seed=st.integers(0, 99),
    quiet_start=st.booleans(),
    piece=st.integers(100, 3 * GRID),
)
def test_windows_are_those_of_the_samples_at_every_decode(
    samples: int, seed: int, quiet_start: bool, piece: int
) -> None:
    pcm = noise(samples, seed)
    if quiet_start:  # the maximum rises later, and the clamp with it
        pcm[: samples // 2] //= 500
    pieces = [
        AudioChunk(at, pcm[at : at + piece], "endpoint" if at + piece >= samples else "none")
        for at in range(0, samples, piece)
    ]
    ours, theirs = segment(), segment()
    ours.push(pcm)
    for data in FeatureSender(LIMITS, "float32").packets(pieces):
        packet = unpack(data, "float32")
        theirs.push_features(packet)
        expected, found = ours.windows(packet.samples), theirs.windows(packet.samples)
        assert [w.key for w in found] == [w.key for w in expected]
        assert [w.partial for w in found] == [w.partial for w in expected]
        for window, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(window.frames, wanted.frames)
    assert packet.last
    assert packet.samples == samples


def test_a_decode_behind_the_last_packet_sees_what_it_would_have_seen() -> None:
    pcm = noise(3 * GRID, 1)
    (piece,) = [AudioChunk(0, pcm, "endpoint")]
    late, ours = segment(), segment()
    ours.push(pcm)
    for data in FeatureSender(LIMITS, "float32").packets([piece]):
        late.push_features(unpack(data, "float32"))
    for samples in (GRID, 2 * GRID, 3 * GRID):
        assert [w.key for w in late.windows(samples)] == [w.key for w in ours.windows(samples)]


@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("float16", 2)])
def test_packets_carry_what_was_packed(dtype: str, size: int) -> None:
    data = pack(16_000, 3, 5 * 160 + 7, FRAMES, last=True, dtype=dtype)
    assert len(data) == 20 + FRAMES.size * size
    packet = unpack(data, dtype)
    assert (packet.segment_start, packet.first_frame, packet.samples) == (16_000, 3, 807)
    assert packet.last
    assert packet.end == 16_807
    np.testing.assert_array_equal(packet.frames, FRAMES)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"short", "a header of 20 bytes"),
        (struct.pack("<QIII", 0, 0, 0, 2), "flags 2 of a packet of features are unknown"),
        (struct.pack("<QIII", 0, 0, 160, 0), "carries 512 bytes of float32 frames, not 0"),
        (struct.pack("<QIII", 0, 9, 160, 0), "carries 0 bytes of float32 frames, not 0"),
        (
            struct.pack("<QIII", 0, 0, 160, 0) + np.full(128, np.nan, "<f4").tobytes(),
            "values that are not finite",
        ),
        (
            struct.pack("<QIII", 0, 0, 160, 0) + np.full(128, -np.inf, "<f4").tobytes(),
            "values that are not finite",
        ),
        (
            struct.pack("<QIII", 0, 0, 160, 0) + np.full(128, 3.4e38, "<f4").tobytes(),
            "values outside -10.01 to 10: they are log10 of energies",
        ),
        (
            struct.pack("<QIII", 0, 0, 160, 0) + np.full(128, -10.1, "<f4").tobytes(),
            "values outside -10.01 to 10",
        ),
        (struct.pack("<QIII", 1 << 63, 0, 0, 1), "ends after 24 hours, the longest session"),
        (struct.pack("<QIII", (1 << 64) - 1, 0, 0, 1), "ends after 24 hours"),
        (struct.pack("<QIII", 0, 0, (1 << 32) - 1, 1), "ends after 24 hours"),
    ],
)
def test_a_malformed_packet_says_what_is_wrong(data: bytes, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        unpack(data, "float32")


def packet(start: int, first: int, samples: int, *, last: bool = False) -> bytes:
    frames = np.zeros((samples // 160 - first, 128), np.float32)
    return pack(start, first, samples, frames, last=last, dtype="float32")


async def heard(ingest: FeatureIngest, data: bytes) -> list[AudioEvent]:
    ingest.take(data)
    assert ingest.ready
    return await ingest.process()


async def test_segments_follow_each_other_with_silence_between() -> None:
    ingest = FeatureIngest("float32", 30.0)
    pieces = [
        *await heard(ingest, packet(1_000, 0, GRID)),
        *await heard(ingest, packet(1_000, 63, GRID + 800, last=True)),
        *await heard(ingest, packet(90_000, 0, 1_600, last=True)),
    ]
    assert all(isinstance(piece, FeatureChunk) for piece in pieces)
    assert [(p.start, p.end, p.boundary) for p in pieces if isinstance(p, FeatureChunk)] == [
        (1_000, 1_000 + GRID, "none"),
        (1_000 + GRID, 1_800 + GRID, "endpoint"),
        (90_000, 91_600, "endpoint"),
    ]
    assert await ingest.end() == []
    assert ingest.total_samples == 91_600
    assert ingest.received_samples == GRID + 800 + 1_600  # only the client declares the silence


@pytest.mark.parametrize(
    ("packets", "message"),
    [
        ([packet(0, 1, 320)], "a segment begins with frame 1, not 0"),
        (
            [packet(0, 0, 1_600, last=True), packet(800, 0, 1_600)],
            "begins at sample 800, before the end of the one before at 1600",
        ),
        (
            [packet(0, 0, 1_600), packet(1_600, 0, 1_600)],
            "the one at 0 has no last packet",
        ),
        ([packet(0, 0, 1_600), packet(0, 11, 3_200)], "does not follow one up to sample 1600"),
        ([packet(0, 0, 1_600), packet(0, 0, 800)], "does not follow one up to sample 1600"),
        ([packet(0, 0, 1_600), packet(0, 8, 3_200)], "repeats frame 8, but the first 9 were final"),
        (
            [packet(0, 0, 1_600), packet(0, 10, 1_759)],
            "brings less than 160 new samples after one up to 1600",
        ),
        ([packet(0, 0, 1_600), packet(0, 10, 1_600)], "brings less than 160 new samples"),
        ([packet(0, 0, 0, last=True)], "a segment's first packet has 0 samples, at least 160"),
    ],
)
async def test_a_packet_out_of_order_says_what_is_wrong(packets: list[bytes], message: str) -> None:
    ingest = FeatureIngest("float32", 30.0)
    with pytest.raises(ProtocolError, match=message):
        for data in packets:
            await heard(ingest, data)


async def test_a_session_that_ends_within_a_segment_ends_it_after_its_last_packet() -> None:
    ingest = FeatureIngest("float32", 30.0)
    await heard(ingest, packet(0, 0, 1_600))
    assert await ingest.end() == []
    assert ingest.resting_at == ingest.total_samples == 1_600


@pytest.mark.parametrize(("samples", "last", "fits"), [(160, True, True), (160, False, False)])
def test_only_the_client_can_cut_its_segments(samples: int, last: bool, fits: bool) -> None:
    one = FeaturePacket(0, 0, samples, last, b"")
    if fits:
        check_features(one, 0.01)
    else:
        with pytest.raises(ProtocolError, match=r"a segment of features may have 0\.01 s"):
            check_features(one, 0.01)


def test_a_segment_is_of_samples_or_of_features() -> None:
    of_samples, of_features = segment(), segment()
    of_samples.push(noise(1_600, 0))
    one = unpack(packet(0, 0, 1_600), "float32")
    with pytest.raises(ProtocolError, match="features within a segment of samples"):
        of_samples.push_features(one)
    of_features.push_features(one)
    with pytest.raises(ProtocolError, match="samples within a segment of features"):
        of_features.push(noise(160, 0))


def test_features_are_unclamped_log_energies() -> None:
    """docs/log_mel.md defines them so for other platforms."""
    mel = IncrementalLogMel()
    mel.push(to_float(np.zeros(1_600, np.int16)))
    frames, maximum = mel.frames(1_600)
    assert frames.shape == (10, 128)
    assert maximum == -10.0  # energies are floored at 1e-10
