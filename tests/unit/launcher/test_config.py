"""The error for a wrong key or value names it and the file."""

from pathlib import Path

import pytest

from auricle.config.settings import FORMER, SECTIONS, PdWorkerSettings
from auricle.core.errors import SettingsError
from auricle.launcher.config import all_settings, load_config, settings_for
from auricle.launcher.graph import component, load_graph

pytestmark = pytest.mark.unit


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "my.yaml"
    path.write_text(text)
    return path


def test_a_section_wins_over_common_and_the_command_line_over_both(tmp_path: Path) -> None:
    path = write(tmp_path, "Common: {threads: 2}\nPdWorker: {threads: 3, max_requests: 5}\n")
    sections = load_config(path, ["--PdWorker.max_requests=7"])
    settings = settings_for("PdWorker", sections, str(path))
    assert (settings.threads, settings.max_requests) == (3, 7)
    assert settings_for("EncodeWorker", sections, str(path)).threads == 2


@pytest.mark.parametrize(
    ("text", "override", "said"),
    [
        ("Frontend: {prot: 1}", None, r"my\.yaml: Frontend\.prot: unknown key; did you mean port"),
        ("Common: {modle: x}", None, r"my\.yaml: Common\.modle: unknown key; did you mean model"),
        (
            "Common: {port: 1}",
            None,
            r"Common\.port: unknown key; it is not for all components: set Frontend",
        ),
        ("Frontent: {}", None, r"my\.yaml: Frontent: unknown section; did you mean Frontend"),
        ("Frontend: {port: many}", None, r"my\.yaml: Frontend\.port is 'many'"),
        ("Frontend: {port: 70000}", None, r"Frontend\.port is 70000.*65535"),
        ("Frontend: {}", "--Frontend.port=-1", r"Frontend\.port is -1"),
        (
            "Frontend: {block_size: 64}",
            None,
            r"must be the same in all components; set Common\.block_size",
        ),
        ("- a list", None, r"my\.yaml must hold sections"),
        ("a: [", None, r"my\.yaml is not valid YAML"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, override: str | None, said: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(SettingsError, match=said):
        sections = load_config(path, [override] if override else [])
        settings_for("Frontend", sections, str(path))


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("--Frontend.prot=1", r"^the command line: Frontend\.prot: unknown key; did you mean port"),
        ("--Common.modle=1", r"^the command line: Common\.modle: unknown key; did you mean model"),
        ("--Frontent.port=1", r"^the command line: Frontent: unknown section"),
        ("--Frontend.port=many", r"^the command line: Frontend\.port is 'many'"),
        (
            "--Frontend.block_size=64",
            r"^the command line: Frontend\.block_size is 64: must be the same",
        ),
    ],
)
def test_a_mistake_of_the_command_line_is_not_blamed_on_the_file(
    tmp_path: Path, override: str, said: str
) -> None:
    path = write(tmp_path, "Frontend: {max_sessions: 2}\n")
    with pytest.raises(SettingsError, match=said):
        settings_for("Frontend", load_config(path, [override]), str(path))


@pytest.mark.parametrize("former", FORMER)
def test_a_former_setting_is_refused_with_its_replacement(tmp_path: Path, former: str) -> None:
    section, key = former.split(".")
    path = write(tmp_path, f"{section}: {{{key}: 1}}\n")
    with pytest.raises(SettingsError) as refused:
        settings_for(section, load_config(path), str(path))
    assert str(refused.value).endswith(f"my.yaml: {former}: former key; {FORMER[former]}")


def test_mistakes_of_both_are_each_named_where_they_are(tmp_path: Path) -> None:
    path = write(tmp_path, "Frontend: {max_sessions: 0}\n")
    with pytest.raises(SettingsError) as error:
        settings_for("Frontend", load_config(path, ["--Frontend.port=-1"]), str(path))
    assert f"{path}: Frontend.max_sessions is 0" in str(error.value)
    assert "the command line: Frontend.port is -1" in str(error.value)


def test_mistakes_of_all_components_are_named_at_once(tmp_path: Path) -> None:
    text = "Frontent: {}\nFrontend: {prot: 1}\nPdWorker: {replicas: 2, gpus: [0]}\n"
    path = write(tmp_path, text)
    with pytest.raises(SettingsError) as error:
        all_settings(["PdWorker", "Frontend"], load_config(path, ["--Common.threads=0"]), str(path))
    assert f"{path}: Frontent: unknown section; did you mean Frontend?" in str(error.value)
    assert f"{path}: Frontend.prot: unknown key; did you mean port?" in str(error.value)
    assert f"{path}: PdWorker: processes_per_device is 1" in str(error.value)
    assert str(error.value).count("the command line: Common.threads is 0: out of bounds") == 1


def test_a_malformed_override_is_named() -> None:
    with pytest.raises(SettingsError, match=r"'--port=1' is not of the form --Component\.key"):
        load_config(None, ["--port=1"])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot read .*none\.yaml"):
        load_config(tmp_path / "none.yaml")


@pytest.mark.parametrize("path", sorted(Path("configs").glob("*.yaml")), ids=lambda p: p.name)
def test_every_config_in_the_repository_is_valid(path: Path) -> None:
    sections = load_config(path)
    for name in SECTIONS:
        settings_for(name, sections, str(path))


def test_the_default_graph_starts_callees_before_callers() -> None:
    order = load_graph("graphs.e_pd:Frontend").in_start_order()
    assert order == ["EncodeWorker", "PdWorker", "Processor", "Planner", "Frontend"]


def test_a_graph_stops_callers_before_all_that_they_call() -> None:
    order = load_graph("graphs.dynamo_frontend:DynamoFrontend").in_stop_order()
    assert order == [
        ["DynamoFrontend"],
        ["Frontend"],
        ["Processor", "Planner"],
        ["EncodeWorker", "PdWorker"],
    ]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("graphs.e_pd", "must be of the form"),
        ("graphs.missing:Frontend", "no graph file"),
        ("graphs.e_pd:Backend", "declares no 'Backend'"),
    ],
)
def test_a_wrong_graph_is_named(target: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        load_graph(target)


def test_an_unknown_component_is_named() -> None:
    with pytest.raises(SettingsError, match="unknown component 'Transcriber'"):
        component("Transcriber")


def pd_settings(tmp_path: Path, text: str) -> PdWorkerSettings:
    path = write(tmp_path, f"PdWorker: {{{text}}}")
    settings: PdWorkerSettings = settings_for("PdWorker", load_config(path), str(path))
    return settings


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("replicas: 2, gpus: [0]", r"PdWorker: processes_per_device is 1, .* 2 processes on GPU 0"),
        ("replicas: 3, gpus: [0, 1]", r"raise processes_per_device to 2, .* or name more gpus"),
        ("replicas: 5, gpus: [4, 7], processes_per_device: 2", r"3 processes on GPU 4"),
        ("replicas: 2, gpus: [3, 3]", r"2 processes on GPU 3"),
        ("processes_per_device: 0", r"PdWorker\.processes_per_device is 0"),
    ],
)
def test_a_gpu_has_no_more_pd_processes_than_are_to_share_it(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(SettingsError, match=r"my\.yaml: .*" + said):
        pd_settings(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        "replicas: 3, gpus: [0], processes_per_device: 3",
        "replicas: 4, gpus: [0, 1], processes_per_device: 2",
        "replicas: 4, gpus: [0, 1, 2, 3]",
        "replicas: 4",  # on a CPU
    ],
)
def test_pd_processes_may_share_devices(tmp_path: Path, text: str) -> None:
    assert pd_settings(tmp_path, text).replicas >= 3


def test_processes_on_one_device_divide_its_memory(tmp_path: Path) -> None:
    text = "gpu_memory_share: 0.75, processes_per_device: 3"
    assert pd_settings(tmp_path, text).process_memory_share == 0.25
