"""The page about one recording: its content, and that it needs no other files."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner

from auricle.cli import main
from auricle.client.events import StreamEvent
from auricle.client.report import ReportSegments, check_report, write_report
from auricle.core.errors import BadRequest
from auricle.protocol.stream import Final, SpeakerPart, Speakers, Translation, Word, Words

pytestmark = pytest.mark.unit
SAMPLES = (np.sin(np.arange(32_000) / 2) * np.linspace(0, 20_000, 32_000)).astype(np.int16)
FINALS = [
    Final(0, "the <script> cat & dog", 250, 1_000, "English"),
    Final(1, "", 1_000, 1_200, "English"),
    Final(2, "on", 61_500, 62_000, "no such language"),
]
SAID = [
    *("The ", 0, 200, 0.95),
    *("cat", 200, 400, 0.7),
    *(", ", 400, 400, None),
    *("a dog.", 900, 1_400, 0.3),
]
WORDS = tuple(
    Word(text.strip(), text, start, end, sure)
    for text, start, end, sure in zip(SAID[::4], SAID[1::4], SAID[2::4], SAID[3::4], strict=True)
)
DIALOGUE: list[StreamEvent] = [
    Final(0, "The cat, a dog.", 0, 1_500, "English"),
    Words(0, WORDS, "aligned"),
    Speakers(0, (SpeakerPart(1, 0, 450, "The cat, "), SpeakerPart(2, 880, 1_450, "a dog."))),
    Translation(0, "es", "El", " gato", final=False),
    Translation(0, "es", "El gato, <un> perro.", "", final=True),
]


def written(tmp_path: Path, events: Sequence[StreamEvent]) -> str:
    told = ReportSegments()
    for event in events:
        told.add(event)
    path = tmp_path / "report.html"
    write_report(path, "a <b>.wav", SAMPLES, told.segments())
    return path.read_text()


@pytest.fixture
def page(tmp_path: Path) -> str:
    return written(tmp_path, FINALS)


def test_text_stands_at_its_time(page: str) -> None:
    assert re.findall(r'data-start="([\d.]+)" data-end="([\d.]+)"', page) == [
        ("0.250", "1.000"),
        ("61.500", "62.000"),
    ]
    assert ">0:00<" in page
    assert ">1:01<" in page
    assert '<p lang="en">the &lt;script&gt; cat &amp; dog</p>' in page
    assert '<p lang="">on</p>' in page
    assert "<h1>a &lt;b&gt;.wav</h1>" in page


def test_each_speaker_has_what_they_said_word_by_word(tmp_path: Path) -> None:
    page = written(tmp_path, DIALOGUE)
    first, second = re.findall(r'<p><b class="(s\d)">(Speaker \d)</b> (.*?)</p>', page)
    assert (first[:2], second[:2]) == (("s1", "Speaker 1"), ("s2", "Speaker 2"))
    assert plain(first[2]) == "The cat, " and plain(second[2]) == "a dog."
    assert re.findall(r'class="(word[^"]*)" data-start="([\d.]+)" data-end="([\d.]+)"', page) == [
        ("word", "0.000", "0.200"),
        ("word unsure", "0.200", "0.400"),
        ("word", "0.400", "0.400"),
        ("word doubtful", "0.900", "1.400"),
    ]
    assert 'title="0.20 to 0.40 s, 70% sure"' in page and "65% sure on average" in page
    assert re.findall(r"<tr><td>cat</td>.*?</tr>", page) == [
        '<tr><td>cat</td><td><button type="button" data-play="0.200" '
        'aria-label="Play from 0:00.20">0:00.20</button></td><td>0:00.40</td><td>70%</td></tr>'
    ]
    bars = re.findall(r'<rect class="(s\d)" x="([\d.]+)" width="([\d.]+)"', page)
    assert bars == [("s1", "0.0", "270.0"), ("s2", "528.0", "342.0")]  # of 1200 for two seconds


def test_a_time_is_rounded_before_it_is_divided_into_minutes(tmp_path: Path) -> None:
    words = Word("a", "a ", 9_994, 59_994, 0.9), Word("b", "b", 59_996, 3_600_000, 0.9)
    page = written(tmp_path, [Final(0, "a b", 0, 3_600_000, "English"), Words(0, words, "aligned")])
    assert re.findall(r">(\d+:\d+\.\d+)</button></td><td>([^<]*)<", page) == [
        ("0:09.99", "0:59.99"),
        ("1:00.00", "60:00.00"),
    ]


def test_a_translation_stands_below_its_segment(tmp_path: Path) -> None:
    page = written(tmp_path, DIALOGUE)
    assert (
        '<p class="translation" lang="es"><b lang="en">Spanish</b> '
        "El gato, &lt;un&gt; perro.</p>" in page
    )
    assert "gato</p>" not in page


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    page = written(
        tmp_path,
        [
            DIALOGUE[0],
            Words(0, WORDS, "commit_grid", "language"),
            Speakers(0, (), missing="nobody_heard"),
            Translation(0, "es", "El", "", final=True, missing="something_new"),
            Final(1, "on", 1_500, 2_000, "English"),
            Words(1, (), missing="deadline"),
        ],
    )
    assert re.findall(r'<p class="note">(.*?)</p>', page) == [
        "Word times are coarse: the aligner lacks the language.",
        "No speakers: no speech was detected.",
        "Not translated into Spanish: something_new.",
        "No word times: no answer in time.",
    ]
    assert "Who spoke when" not in page and "speaker" not in page.partition("<ol>")[0][-400:]


def plain(markup: str) -> str:
    return re.sub(r"<[^>]*>", "", markup)


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
