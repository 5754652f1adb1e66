"""The page about one recording: what it shows, and that it needs nothing else."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner

from auricle.cli import main
from auricle.client.events import Final
from auricle.client.report import check_report, write_report
from auricle.errors import BadRequest

pytestmark = pytest.mark.unit
SAMPLES = (np.sin(np.arange(32_000) / 2) * np.linspace(0, 20_000, 32_000)).astype(np.int16)
FINALS = [
    Final(0, "the <script> cat & dog", 250, 1_000, "English"),
    Final(1, "", 1_000, 1_200, "English"),
    Final(2, "on", 61_500, 62_000, "no such language"),
]


@pytest.fixture
def page(tmp_path: Path) -> str:
    path = tmp_path / "report.html"
    write_report(path, "a <b>.wav", SAMPLES, FINALS)
    return path.read_text()


def test_text_stands_at_its_time(page: str) -> None:
    assert re.findall(r'data-start="([\d.]+)" data-end="([\d.]+)"', page) == [
        ("0.250", "1.000"),
        ("61.500", "62.000"),
    ]
    assert ">0:00<" in page
    assert ">1:01<" in page
    assert '<span lang="en">the &lt;script&gt; cat &amp; dog</span>' in page
    assert '<span lang="">on</span>' in page
    assert "<h1>a &lt;b&gt;.wav</h1>" in page


def test_the_audio_is_in_it(page: str) -> None:
    (audio,) = re.findall(r"data:audio/flac;base64,([^\"]+)", page)
    samples, rate = soundfile.read(io.BytesIO(base64.b64decode(audio)), dtype="int16")
    assert rate == 16_000
    assert np.array_equal(samples, SAMPLES)


def test_the_waveform_is_as_loud_as_the_audio(page: str) -> None:
    (path,) = re.findall(r'<path d="M([^"]+)Z"', page)
    points = [point.split(",") for point in path.split()]
    heights = [1 - float(y) for _, y in points[: len(points) // 2]]
    assert heights[0] < 0.01
    assert heights[-1] == pytest.approx(20_000 / 32_768, abs=0.02)


def test_it_needs_nothing_from_elsewhere(page: str) -> None:
    assert "default-src 'none'" in page
    assert not re.search(r"https?://", page)
    assert "$" not in re.sub(r"base64,[^\"]+", "", page)


def test_what_cannot_become_a_report_is_said_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="at most 3600 s; this is 4000 s"):
        check_report(tmp_path / "report.html", 4_000)
    with pytest.raises(BadRequest, match="folder does not exist"):
        check_report(tmp_path / "none" / "report.html", 1)
    with pytest.raises(BadRequest, match="cannot be written"):
        write_report(tmp_path, "x", SAMPLES, [])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [([], "name a FILE, or give --mic"), (["x.wav", "--mic"], "--mic has no")],
)
def test_one_source_is_named(arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(main, ["transcribe", *arguments])
    assert done.exit_code == 2
    assert said in done.stderr
