"""A setting may name a model; it resolves to a folder, or to an error if it was not pulled."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from auricle.checkpoints.download import store
from auricle.checkpoints.download.pull import locate, servable
from auricle.checkpoints.files import read_config
from auricle.cli import main
from auricle.core.errors import CheckpointError, SettingsError
from auricle.launcher.component import component_settings
from auricle.launcher.config import load_config, settings_for
from auricle.launcher.model_folders import place_models
from auricle_testing.checkpoints.whisper import random_english_whisper
from auricle_testing.server import ROOT
from tests.ctranslate2 import ctranslate2_folder

pytestmark = pytest.mark.unit
DEMO = ROOT / "models/demo"
# The settings that whisper-base requires, as in configs/whisper.yaml.
LIMITS = [
    "--Common.max_segment_seconds=28",
    "--Common.context_characters=0",
    "--Common.context_tokens=128",
    "--PdWorker.max_model_len=448",
]


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of models, and another working directory."""
    folder, here = tmp_path / "models", tmp_path / "here"
    here.mkdir()
    monkeypatch.setenv(store.ENVIRONMENT, str(folder))
    monkeypatch.chdir(here)
    return folder


@pytest.fixture(scope="module")
def ctranslate2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whisper")
    random_english_whisper(folder / "stock")
    return ctranslate2_folder(folder / "stock", folder / "faster-whisper-small")


def put(name: str, checkpoint: Path = DEMO) -> Path:
    """Create a model in the folder of models, as if it had been pulled."""
    with store.unfinished(name) as work:
        shutil.copytree(checkpoint, work / "files")
        return store.finish(work / "files", name, "a test")


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"AURICLE_MODELS": "/srv/models", "XDG_CACHE_HOME": "/cache"}, "/srv/models"),
        ({"XDG_CACHE_HOME": "/cache"}, "/cache/auricle/models"),
        ({"XDG_CACHE_HOME": "relative"}, "/home/me/.cache/auricle/models"),
        ({}, "/home/me/.cache/auricle/models"),
    ],
)
def test_models_are_in_the_cache_of_their_user(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], folder: str
) -> None:
    for name in ("AURICLE_MODELS", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert store.root() == Path(folder)


@pytest.mark.parametrize("name", ["whisper-base", "Qwen/Qwen3-ASR-0.6B", "a/b/c"])
def test_names_of_models(name: str) -> None:
    assert store.is_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *("", "/models/x", "../x", "a/../x", "./x", "~/x", ".unfinished/x", "a//b", "a/b/c/d"),
        *("a b", "a\n", "models/demo", "models/demo-aligner"),
    ],
)
def test_paths_are_no_names(name: str) -> None:
    assert not store.is_name(name)
    assert store.find(name) is None


def test_a_name_is_the_folder_of_what_was_pulled(models: Path) -> None:
    put("owner/small")
    assert locate(Path("owner/small")) == models / "owner/small"
    assert read_config(locate(Path("owner/small"))).architecture.name == "Qwen3-ASR"


def test_a_folder_here_goes_before_a_name() -> None:
    put("small")
    shutil.copytree(DEMO, "small")
    assert locate(Path("small")) == Path("small")


def test_a_folder_without_a_record_is_not_there(models: Path) -> None:
    put("small")
    (models / "small" / ".auricle.json").unlink()
    assert store.find("small") is None and store.pulled() == {}
    assert store.find(put("small").name) is not None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("whisper-base", "`auricle models pull whisper-base` gets it"),
        ("Qwen/Qwen3-ASR-0.6B", "`auricle models pull Qwen/Qwen3-ASR-0.6B` gets it"),
        ("Qwen3-ASR-0.6B", "did you mean Qwen/Qwen3-ASR-0.6B?"),
        ("whisper-large-v3-turbo", "did you mean openai/whisper-large-v3-turbo?"),
    ],
)
def test_a_name_that_was_not_pulled_says_how_to_get_it(name: str, said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        component_settings("Processor", None, [f"--Common.model={name}"])
    assert f"Common.model: {name} is neither a folder nor a pulled model" in str(refused.value)
    assert said in str(refused.value)


def test_all_components_that_read_a_model_get_its_folder(models: Path) -> None:
    put("small")
    put("owner/aligner")
    sections = load_config(None, ["--Common.model=small", "--Common.align_model=owner/aligner"])
    names = ("Frontend", "Processor", "AlignWorker", "Planner")
    placed = place_models(names, sections, "here", print)
    for name in names:
        settings = settings_for(name, sections, "here")
        assert settings.model == models / "small"
        assert settings.align_model == models / "owner/aligner"
        assert f"--{name}.model={models / 'small'}" in placed
    again = load_config(None, [*placed])
    assert settings_for("AlignWorker", again, "here").align_model == models / "owner/aligner"


def test_who_does_not_read_a_model_does_not_ask_for_it() -> None:
    sections = load_config(None, ["--Common.model=whisper-base"])
    assert place_models(["Planner", "DiarizeWorker", "TranslateWorker"], sections, "x", print) == []


def test_a_component_alone_gets_the_folder(models: Path) -> None:
    put("small")
    settings = component_settings("PdWorker", None, ["--Common.model=small"])
    assert settings.model == models / "small"


def test_a_folder_of_ctranslate2_is_converted_once(models: Path, ctranslate2: Path) -> None:
    said: list[str] = []
    folder = servable(ctranslate2, said.append)
    assert folder.is_relative_to(models / "converted") and folder.name == "faster-whisper-small"
    assert said == [f"converted {ctranslate2} from CTranslate2's format to {folder}"]
    assert servable(ctranslate2, said.append) == folder and len(said) == 1
    settings = component_settings("Processor", None, [f"--Common.model={ctranslate2}", *LIMITS])
    assert settings.model == folder


def test_another_content_is_converted_anew(ctranslate2: Path, tmp_path: Path) -> None:
    folder = servable(ctranslate2, print)
    other = tmp_path / "faster-whisper-small"
    shutil.copytree(ctranslate2, other)
    assert servable(other, print) == folder
    config = (other / "config.json").read_text()
    (other / "config.json").write_text(config.replace("[[1, 0], [1, 1]]", "[[1, 0]]"))
    assert servable(other, print) != folder


def test_a_folder_of_ctranslate2_without_its_tokenizer_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "some"
    folder.mkdir()
    (folder / "model.bin").write_bytes(b"")
    (folder / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"but no tokenizer\.json"):
        servable(folder, print)


def test_where_nothing_can_be_written_it_says_where(
    ctranslate2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(store.ENVIRONMENT, str(tmp_path / "file/models"))
    with pytest.raises(SettingsError, match="AURICLE_MODELS names another folder"):
        servable(ctranslate2, print)


def one_bit(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (one_bit, "has changed"),
        (lambda path: path.write_bytes(b""), "has 0 bytes instead of"),
        (Path.unlink, "model.safetensors is missing"),
    ],
)
def test_a_damaged_model_is_found(damage: Callable[[Path], object], said: str) -> None:
    folder = put("small")
    assert CliRunner().invoke(main, ["models", "check", "small"]).exit_code == 0
    damage(folder / "model.safetensors")
    done = CliRunner().invoke(main, ["models", "check", "small"])
    assert done.exit_code == 1 and said in done.stderr
    assert "`auricle models remove small`" in done.stderr


def test_what_is_removed_is_gone_and_others_stay(models: Path) -> None:
    put("owner/one")
    put("owner/two")
    with pytest.raises(SettingsError), store.unfinished("owner/one") as work:
        (work / "half").write_bytes(b"of it")
        raise SettingsError("interrupted")
    done = CliRunner().invoke(main, ["models", "remove", "owner/one"])
    assert (done.exit_code, done.stdout[:17]) == (0, "owner/one removed")
    assert [*store.pulled()] == ["owner/two"]
    assert not [*models.rglob("half")]
    for name in ("owner/one", "owner", "../models", ".unfinished", "converted"):
        assert CliRunner().invoke(main, ["models", "remove", name]).exit_code == 2
    assert [*store.pulled()] == ["owner/two"]


def test_check_config_knows_names(tmp_path: Path, ctranslate2: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_text("Common:\n  model: whisper-base\n")
    done = CliRunner().invoke(main, ["check-config", str(file)])
    assert done.exit_code == 1
    assert done.stdout.count("\n") == 1 and done.stdout.startswith(f"{file}:2: Common.model is")
    assert "`auricle models pull whisper-base` gets it" in done.stdout
    put("whisper-base")
    assert CliRunner().invoke(main, ["check-config", str(file)]).exit_code == 0
    file.write_text(f"Common:\n  model: {ctranslate2}\n")
    assert CliRunner().invoke(main, ["check-config", str(file)]).exit_code == 0
    assert [*store.pulled()] == ["whisper-base"]  # nothing is converted


def test_the_list_has_what_is_here_and_what_else_there_is(models: Path) -> None:
    put("whisper-base")
    lines = CliRunner().invoke(main, ["models", "list"]).stdout.splitlines()
    here, others = lines[: lines.index("")], lines[lines.index("") :]
    assert here[0] == f"In {models}:" and here[1].startswith("whisper-base ")
    assert any(line.startswith("whisper-tiny.en ") for line in others)
    assert not any(line.startswith("whisper-base ") for line in others)
