"""`auricle check-config` lists every mistake at once, with its position and a valid value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trustme
from click.testing import CliRunner, Result

from auricle.cli import main
from auricle_testing.server import ROOT

pytestmark = pytest.mark.unit
DEMO = "Common: {model: models/demo}\n"


def checked(tmp_path: Path, text: str, *arguments: str) -> Result:
    file = tmp_path / "my.yaml"
    file.write_text(text)
    return CliRunner().invoke(main, ["check-config", str(file), *arguments])


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("AURICLE_API_KEYS", raising=False)


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda p: p.name)
def test_every_config_in_the_repository_is_right(path: Path) -> None:
    done = CliRunner().invoke(main, ["check-config", str(path), "--no-files"])
    assert (done.exit_code, done.stdout) == (0, f"{path} is right.\n")


def test_the_demo_is_right_with_the_files_that_it_names() -> None:
    done = CliRunner().invoke(main, ["check-config", "configs/demo.yaml"])
    assert done.exit_code == 0, done.stdout


ONE_MISTAKE = {
    "an unknown section": ("Frontent: {}", "1: Frontent: unknown section; did you mean Frontend?"),
    "an unknown key": (
        "Frontend:\n  prot: 1",
        "2: Frontend.prot: unknown key; did you mean port?",
    ),
    "a key of other components": (
        "Common: {port: 1}",
        "1: Common.port: unknown key; it is not for all components: set Frontend.port or",
    ),
    "a key within a key": (
        "Planner: {pd: {minimun: 2}}",
        "1: Planner.pd.minimun: unknown key; did you mean pd.minimum?",
    ),
    "a wrong type": (
        "Frontend: {port: many}",
        "1: Frontend.port is 'many': of another type; set a whole number, 0 to 65535",
    ),
    "a value out of bounds": (
        "Frontend: {port: 70000}",
        "1: Frontend.port is 70000: out of bounds; set a whole number, 0 to 65535",
    ),
    "a word that is none of the choices": (
        "Common: {log_level: LOUD}",
        "1: Common.log_level is 'LOUD': not one of those; set one of DEBUG, INFO, WARNING, ERROR",
    ),
    "a member of a list": (
        "Frontend: {trusted_proxies: [10.0.0.0/8, home]}",
        "1: Frontend.trusted_proxies is 'home': of another type; set a list; each: IPv4 network or",
    ),
    "a mapping that is none": (
        "Planner: {pd: 3}",
        "1: Planner.pd is 3: of another type; set a mapping of keys to values",
    ),
    "what must be alike": (
        "PdWorker: {block_size: 64}",
        "1: PdWorker.block_size is 64: must be the same in all components; set Common.block_size",
    ),
    "a key of the cluster": (
        "Kubernetes: {namspace: x}",
        "1: Kubernetes.namspace: unknown key; did you mean namespace?",
    ),
    "a key that is there twice": (
        "Frontend:\n  port: 1\n  host: h\n  port: 2",
        "4: Frontend.port: set twice, at line 2 and at line 4; leave out one",
    ),
    "values that exclude each other": (
        "PdWorker: {replicas: 2, gpus: [0]}",
        "1: PdWorker: processes_per_device is 1, but replicas 2 on gpus [0]",
    ),
    "bounds in the wrong order": (
        "Planner: {pd: {minimum: 9}}",
        "1: Planner.pd: minimum 9 is more than maximum 8",
    ),
    "a file that is not there": (
        "Frontend: {api_keys_file: /nowhere/keys.yaml}",
        "1: Frontend.api_keys_file is '/nowhere/keys.yaml': does not exist; name a path that",
    ),
    "a file of something else": (
        "Frontend: {api_keys_file: README.md}",
        "1: Frontend.api_keys_file is 'README.md': Frontend.api_keys_file: README.md cannot be",
    ),
    "a folder without a checkpoint": (
        "Processor: {model: docs}",
        "1: Processor.model is 'docs': docs has no config.json",
    ),
    "a key without a certificate": (
        "Frontend: {tls_key: README.md}",
        "1: Frontend.tls_key is 'README.md': set without a certificate",
    ),
    "a certificate that is none": (
        "Frontend: {tls_key: README.md, tls_certificate: README.md}",
        "1: Frontend.tls_certificate is 'README.md': it cannot serve TLS with the key README.md",
    ),
    "a translator that is not a text model": (
        "Common: {translate_model: models/demo}",
        "1: Common.translate_model is 'models/demo': models/demo/config.json has thinker_config",
    ),
    "a turn model that is none": (
        "Frontend: {turn_model: README.md}",
        "1: Frontend.turn_model is 'README.md': Frontend.turn_model: README.md is not a loadable",
    ),
    "keys needed and none there": (
        "Frontend: {metrics_need_key: true}",
        "1: Frontend.api_keys_file: Frontend.metrics_need_key is set without API keys",
    ),
    "calls that go nowhere": (
        "Frontend: {audiosocket_port: 9001}",
        "1: Frontend.keyless_tenant: Frontend.audiosocket_port is set, but the text of its calls",
    ),
    "no secret for several machines": (
        "Common: {discovery: etcd}",
        "1: Common.secret_file: Common.discovery is 'etcd', and Common.secret_file is not set",
    ),
    "a planner without a profile": (
        "Planner: {replicas: 1}",
        "1: Planner.profile is not set: it must name a file with the capacities of a worker",
    ),
    "segments that do not fit": (
        "Common: {max_segment_seconds: 300}",
        "PdWorker.max_model_len is 2048, but a segment of Common.max_segment_seconds (300)",
    ),
    "a port for two": (
        "Processor: {system_port: 9100, replicas: 2}\nPdWorker: {system_port: 9101}",
        "2: PdWorker.system_port is 9101: 2 processes would listen at this port: "
        "Processor.system_port and PdWorker.system_port",
    ),
}


@pytest.mark.parametrize(("text", "said"), ONE_MISTAKE.values(), ids=ONE_MISTAKE)
def test_a_mistake_is_one_line_that_names_its_place(tmp_path: Path, text: str, said: str) -> None:
    done = checked(tmp_path, text)
    lines = done.stdout.splitlines()
    assert (done.exit_code, len(lines)) == (1, 1), done.output
    assert lines[0].startswith(f"{tmp_path / 'my.yaml'}:")
    assert lines[0].removeprefix(f"{tmp_path / 'my.yaml'}:").strip().startswith(said)


def test_all_mistakes_are_named_at_once_in_their_order(tmp_path: Path) -> None:
    """A wrong value hides neither the others nor conflicts between the rest."""
    text = (
        "Common: {threads: 0}\n"
        "Frontend: {prot: 1, port: -1}\n"
        "PdWorker: {replicas: 2, gpus: [0], max_requests: none}\n"
    )
    done = checked(tmp_path, text, "--Processor.attempts=0", "--Foo.bar=1")
    starts = [line.split(" is ")[0].split(": unknown")[0] for line in done.stdout.splitlines()]
    file = tmp_path / "my.yaml"
    assert starts[:4] == [
        f"{file}:1: Common.threads",
        *(f"{file}:2: Frontend.port", f"{file}:2: Frontend.prot"),
        f"{file}:3: PdWorker.max_requests",
    ]
    assert starts[4].startswith(f"{file}:3: PdWorker: processes_per_device")
    assert starts[5:] == ["the command line: Foo", "the command line: Processor.attempts"]


def test_a_mistake_in_common_is_said_once_and_not_of_each_component(tmp_path: Path) -> None:
    done = checked(tmp_path, "Common: {model: /nowhere}")
    assert len(done.stdout.splitlines()) == 1
    assert "Common.model is '/nowhere': does not exist" in done.stdout


def test_files_of_another_machine_can_be_left_out(tmp_path: Path) -> None:
    text = "Common: {model: /nowhere, secret_file: /nowhere, discovery: etcd}"
    assert checked(tmp_path, text, "--no-files").exit_code == 0


@pytest.mark.parametrize(
    "more", ["Kubernetes: {}", "Common: {discovery: etcd, insecure_internal: true}"]
)
def test_processes_of_several_hosts_may_have_the_same_port(tmp_path: Path, more: str) -> None:
    ports = "Processor: {system_port: 9100}\nPdWorker: {system_port: 9100}\n"
    assert checked(tmp_path, ports).exit_code == 1
    assert checked(tmp_path, ports + more).exit_code == 0


def test_programs_can_read_it(tmp_path: Path) -> None:
    done = checked(tmp_path, "Frontend:\n  port: 70000\n", "--Common.threads=0", "--json")
    assert done.exit_code == 1
    told: dict[str, Any] = json.loads(done.stdout)
    file = str(tmp_path / "my.yaml")
    assert (told["file"], told["right"]) == (file, False)
    assert told["mistakes"][0] == {
        "source": file,
        "line": 2,
        "key": "Frontend.port",
        "value": 70000,
        "wrong": "out of bounds",
        "right": "set a whole number, 0 to 65535",
    }
    assert told["mistakes"][1]["source"] == "the command line"
    assert json.loads(checked(tmp_path, DEMO, "--json").stdout)["right"] is True


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        ("a: [", [], "is not valid YAML"),
        ("- a list", [], "must hold sections"),
        (DEMO, ["--port=1"], "'--port=1' is not of the form --Component.key=value"),
    ],
)
def test_what_cannot_be_checked_is_another_exit_status(
    tmp_path: Path, text: str, arguments: list[str], said: str
) -> None:
    done = checked(tmp_path, text, *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_missing_file_is_another_exit_status(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["check-config", str(tmp_path / "none.yaml")])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "cannot read" in done.stderr


def test_a_certificate_and_its_key_are_right_and_others_are_not(tmp_path: Path) -> None:
    for name in ("a", "b"):
        pair = trustme.CA().issue_cert("localhost")
        pair.cert_chain_pems[0].write_to_path(tmp_path / f"{name}.pem")
        pair.private_key_pem.write_to_path(tmp_path / f"{name}.key")

    def with_key(name: str) -> Result:
        pair = f"{{tls_certificate: {tmp_path}/a.pem, tls_key: {tmp_path}/{name}.key}}"
        return checked(tmp_path, f"Frontend: {pair}")

    assert with_key("a").exit_code == 0
    assert "cannot serve TLS with the key" in with_key("b").stdout


def test_nothing_is_made_where_it_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models").symlink_to(ROOT / "models")
    monkeypatch.chdir(tmp_path)
    assert checked(tmp_path, "Common: {discovery_path: here}").exit_code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"models", "my.yaml"}
