"""Nothing is lost silently: each container with a hole, zeros, a cut end, and joined to another."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from auricle.audio.findings import Findings
from auricle.core.errors import UndecodableAudio
from auricle_testing import media, recordings
from auricle_testing.containers import (
    CANNOT_BE_SEEN,
    CONTAINERS,
    DAMAGES,
    Damage,
    encoded,
    spoiled,
)
from tests.unit.audio.test_times_of_recordings import read, speech

pytestmark = pytest.mark.unit
SECONDS = 5


@cache
def intact(name: str) -> bytes:
    return encoded(name, [(0.0, speech()[: SECONDS * 16_000])])


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", CONTAINERS)
def test_what_is_missing_is_told(name: str, damage: Damage) -> None:
    findings = Findings(keep_damaged=True)
    try:
        samples, _, warnings = read(spoiled(intact(name), damage), findings=findings)
    except UndecodableAudio as error:  # MP4 and ALAC in CAF: their tables are lost
        assert damage in ("hole", "cut")
        assert str(error) == "x cannot be opened: the file is cut off or damaged"
        return
    seconds = len(samples) / 16_000
    if damage == "joined":
        assert seconds == pytest.approx(2 * SECONDS, abs=0.5)
        assert warnings == () or name == "ogg-flac"
    elif (name, damage) in CANNOT_BE_SEEN:
        assert warnings == ()
    else:
        assert warnings
        assert seconds < SECONDS - 0.1 or "missing" in str(warnings) or "no audio" in str(warnings)


@pytest.mark.parametrize("damage", ["hole", "zeroed"])
@pytest.mark.parametrize("name", ["flac", "mp3", "aac", "ogg-opus", "webm", "mpeg-mp2"])
def test_damage_within_is_an_error_unless_it_is_to_be_kept(name: str, damage: Damage) -> None:
    data = spoiled(intact(name), damage)
    with pytest.raises(UndecodableAudio, match=r"x is damaged 2\.\d s after its start; with on_d"):
        read(data)
    findings = Findings(keep_damaged=True)
    _, silences, warnings = read(data, findings=findings)
    assert silences[0][0] == pytest.approx(2.3, abs=0.5)
    assert warnings[0].startswith("the recording is damaged")
    assert findings.incomplete


def test_damage_after_which_nothing_can_be_decoded_is_told_as_damage() -> None:
    """FFmpeg looks for the next cluster, and this file has only one."""
    data = spoiled(intact("mkv-pcm"), "hole")
    with pytest.raises(UndecodableAudio, match=r"x is damaged 2\.\d s after its start"):
        read(data)
    _, _, warnings = read(data, findings=Findings(keep_damaged=True))
    assert warnings[0].startswith("the recording is damaged at 2.")


def test_a_pause_is_not_damage() -> None:
    findings = Findings()
    piece = speech()[:32_000]
    read(encoded("webm", [(0.0, piece), (10.0, piece)]), findings=findings)
    assert not findings.incomplete


@pytest.mark.parametrize("name", ["wav", "mp3", "webm", "flac", "ogg-opus", "ts-aac"])
def test_a_recording_that_is_cut_off_is_told_by_how_much(name: str) -> None:
    findings = Findings()
    samples, _, warnings = read(intact(name)[: len(intact(name)) // 2 | 1], findings=findings)
    assert findings.incomplete
    if name in ("ogg-opus", "ts-aac"):  # they have no length
        assert "cut off or damaged at its end" in warnings[0]
        return
    missing = SECONDS - len(samples) / 16_000
    assert f"{missing:.1f} s" in warnings[0] or f"{missing + 0.1:.1f} s" in warnings[0]


def test_two_formats_joined_are_one_recording() -> None:
    samples, silences, warnings = read(intact("wav-ulaw") + intact("m4a"))
    assert len(samples) / 16_000 == pytest.approx(2 * SECONDS, abs=0.3)
    assert [length for _, length in silences] == [0.0]  # no utterance runs across the joint
    assert warnings == ()


def test_bytes_after_a_recording_are_told() -> None:
    noise = np.random.default_rng(0).bytes(50_000)
    for name in ("wav", "m4a", "aiff", "caf"):
        _, _, warnings = read(intact(name) + noise)
        assert warnings == ("50000 bytes after the end of the recording at 5.0 s were not decoded",)


def tag(picture: int) -> bytes:
    content = np.random.default_rng(1).bytes(picture)
    return media.id3(content, stated=len(content) + 23)


ID3V1 = b"TAG" + b"title".ljust(125, b"\0")
APE = b"APETAGEX" + bytes([0xD0, 7, 0, 0, 32]) + bytes(19)


@pytest.mark.parametrize(
    ("before", "between", "after"),
    [
        (b"", tag(1_000), b""),
        (tag(100), ID3V1 + tag(200_000), ID3V1),
        (b"", ID3V1, b""),
        (b"", b"", ID3V1),
        (b"", b"", APE + ID3V1),
        (b"", b"", bytes(3_000)),
    ],
)
def test_tags_and_padding_of_joined_mp3_files_are_not_damage(
    before: bytes, between: bytes, after: bytes
) -> None:
    one = intact("mp3")
    whole = before + one + ((between + one) if between else b"") + after
    samples, _, warnings = read(whole)
    times = 2 if between else 1
    assert len(samples) / 16_000 == pytest.approx(times * SECONDS, abs=0.2)
    assert warnings == ()


@pytest.mark.parametrize("stated", [0, 0xFFFFFFFF, 0x7FFFFFFF, 0x7FFFF000, 0x80000000])
@pytest.mark.parametrize("odd", [b"", b"\1"])
def test_a_wav_file_of_a_writer_that_cannot_go_back_is_whole(stated: int, odd: bytes) -> None:
    data = recordings.samples("hello")
    pcm = (data * 32_767).astype("<i2").tobytes()
    samples, _, warnings = read(media.wav(pcm + odd, stated=stated))
    assert (len(samples), warnings) == (len(data), ())


def test_a_wav_file_with_chunks_after_its_audio_is_whole() -> None:
    chunk = b"LIST\x0c\x00\x00\x00INFOISFT\0\0\0\0"
    for size in (32_000, 31_999):
        samples, _, warnings = read(media.wav(bytes(size)) + bytes(size % 2) + chunk)
        assert (len(samples), warnings) == (size // 2, ())


def test_more_audio_than_a_wav_header_states_is_told() -> None:
    noise = np.random.default_rng(0).bytes(64_000)
    samples, _, warnings = read(media.wav(noise, stated=16_000))
    assert len(samples) == 8_000
    assert warnings == ("48000 bytes after the end of the recording at 0.5 s were not decoded",)
