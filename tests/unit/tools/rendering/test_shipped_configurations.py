"""Every shipped configuration becomes manifests with one command, whose options change them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from auricle.core.errors import SettingsError
from auricle.tools.rendering.access import GRPC_SERVICES
from auricle.tools.rendering.target import labels
from auricle.tools.rendering.write import render
from auricle_testing.server import ROOT

pytestmark = pytest.mark.unit
GRAPH = "graphs.e_pd:Frontend"
CONFIGURATIONS = sorted(path.name for path in (ROOT / "configs").glob("*.yaml"))
DOCKERFILE = (ROOT / "deploy/docker/Dockerfile").read_text()
EVERYTHING = (
    "--Frontend.grpc_port=50051",
    "--Frontend.replicas=3",
    "--Kubernetes.hosts=[speech.example.com, '*.speech.example.com']",
    "--Kubernetes.ingress_class=nginx",
    "--Kubernetes.ingress_annotations=['nginx.ingress.kubernetes.io/proxy-read-timeout=3600']",
    "--Kubernetes.tls_secret=speech-tls",
    "--Kubernetes.gateway=infra/public",
    "--Kubernetes.api_keys_secret=auricle-keys",
    "--Kubernetes.storage_class=files",
    "--Kubernetes.resources=[Frontend:cpu=500m, PdWorker:memory=24Gi]",
    "--Kubernetes.gpu_node_labels=['pool=h100']",
    "--Kubernetes.gpu_node_taints=['nvidia.com/gpu:NoSchedule']",
)


@pytest.fixture(autouse=True)
def repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def rendered(
    out: Path, config: str, *overrides: str, graph: str = GRAPH
) -> dict[tuple[str, str], dict[str, Any]]:
    """All manifests by kind and name, without kustomize's own."""
    found = {}
    for path in render(graph, Path("configs") / config, out, overrides):
        for one in yaml.safe_load_all(path.read_text()):
            if "kustomize" not in one["apiVersion"]:
                found[one["kind"], one["metadata"]["name"]] = one
    return found


def pods(manifests: dict[tuple[str, str], dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The pod's spec of each component."""
    parts = manifests["DynamoGraphDeployment", "auricle"]["spec"]["components"]
    return {one["name"]: one["podTemplate"]["spec"] for one in parts}


@pytest.mark.parametrize("config", CONFIGURATIONS)
def test_every_configuration_is_rendered(tmp_path: Path, config: str) -> None:
    found = rendered(tmp_path, config)
    gpu = "device: cuda" in (ROOT / "configs" / config).read_text()
    images = {spec["containers"][0]["image"] for spec in pods(found).values()}
    assert images == {"auricle:gpu" if gpu else "auricle:cpu"}
    settings = yaml.safe_load(found["ConfigMap", "auricle-config"]["data"]["config.yaml"])
    # A planner decides by measured capacity, and so needs a profile.
    assert ("Planner" in pods(found)) == (
        "profile.json" in found["ConfigMap", "auricle-config"]["data"]
    )
    assert settings["Common"]["dtype"] in ("float32", "bfloat16")


def test_one_type_of_numbers_suits_all_nodes(tmp_path: Path) -> None:
    """On one machine `auto` follows the CPU's flags, which may differ between nodes."""
    config = "cpu-0.6b.yaml"
    assert yaml.safe_load((ROOT / "configs" / config).read_text())["Common"]["dtype"] == "auto"
    for more, dtype in ((), "float32"), (("--Common.dtype=bfloat16",), "bfloat16"):
        found = rendered(tmp_path, config, *more)["ConfigMap", "auricle-config"]
        assert yaml.safe_load(found["data"]["config.yaml"])["Common"]["dtype"] == dtype


def test_the_bundled_model_is_in_the_image_and_needs_no_volume(tmp_path: Path) -> None:
    found = rendered(tmp_path, "demo.yaml")
    assert not {kind for kind, _ in found} & {"PersistentVolumeClaim", "Job"}
    for spec in pods(found).values():
        assert "models" not in [volume["name"] for volume in spec["volumes"]]
    assert "COPY models/demo models/demo" in DOCKERFILE


def test_every_model_that_a_graph_needs_is_in_the_image_or_pulled(tmp_path: Path) -> None:
    found = rendered(
        tmp_path,
        "h100-0.6b.yaml",
        *("--Common.align_model=Qwen/Qwen3-ForcedAligner-0.6B", "--Common.translate_model=a/text"),
        "--Common.speaker_model=models/speakers",
        graph="graphs.e_pd_align_diarize:Frontend",
    )
    (pull,) = found["Job", "auricle-model-download"]["spec"]["template"]["spec"]["containers"]
    names = ["Qwen/Qwen3-ASR-0.6B", "Qwen/Qwen3-ForcedAligner-0.6B", "a/text"]
    assert sorted(pull["command"][3:]) == names
    assert "COPY models/speakers models/speakers" in DOCKERFILE


def test_the_command_line_changes_settings_of_components_and_of_the_cluster(tmp_path: Path) -> None:
    found = rendered(
        tmp_path,
        "whisper.yaml",
        *(
            "--Kubernetes.name=speech",
            "--Kubernetes.namespace=voice",
            "--Common.model=whisper-tiny",
        ),
        *("--Frontend.max_sessions=7", "--PdWorker.replicas=2"),
    )
    deployment = found["DynamoGraphDeployment", "speech"]
    assert deployment["metadata"]["namespace"] == "voice"
    assert {one["name"]: one["replicas"] for one in deployment["spec"]["components"]}[
        "PdWorker"
    ] == 2
    settings = yaml.safe_load(found["ConfigMap", "speech-config"]["data"]["config.yaml"])
    assert settings["Frontend"]["max_sessions"] == 7
    (pull,) = found["Job", "speech-model-download"]["spec"]["template"]["spec"]["containers"]
    assert pull["command"][-1] == "whisper-tiny"
    first = (tmp_path / "base/config.yaml").read_text().splitlines()[0]
    assert "--Frontend.max_sessions=7" in first  # the file names the command that made it


def test_a_wrong_override_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"the command line: Frontend\.prot: unknown key"):
        rendered(tmp_path, "demo.yaml", "--Frontend.prot=1")


def test_clients_reach_the_frontends_by_an_ingress_or_a_gateway(tmp_path: Path) -> None:
    found = rendered(tmp_path, "h100-0.6b.yaml", *EVERYTHING)
    service = found["Service", "auricle-clients"]["spec"]
    assert service["selector"] == labels("auricle", "Frontend")
    assert [(port["name"], port["port"]) for port in service["ports"]] == [
        ("http", 8000),
        ("grpc", 8001),
    ]
    frontend = pods(found)["Frontend"]["containers"][0]
    assert [port["name"] for port in frontend["ports"]] == ["http", "grpc"]
    config = yaml.safe_load(found["ConfigMap", "auricle-config"]["data"]["config.yaml"])
    assert config["Frontend"]["grpc_port"] == 8001
    policy = found["NetworkPolicy", "auricle-clients"]["spec"]["ingress"]
    assert [port["port"] for port in policy[0]["ports"]] == [8000, 8001]

    ingress = found["Ingress", "auricle-clients"]
    hosts = ["speech.example.com", "*.speech.example.com"]
    assert [rule["host"] for rule in ingress["spec"]["rules"]] == hosts
    assert ingress["spec"]["tls"] == [{"hosts": hosts, "secretName": "speech-tls"}]
    assert ingress["metadata"]["annotations"] == {
        "nginx.ingress.kubernetes.io/proxy-read-timeout": "3600"
    }
    route = found["HTTPRoute", "auricle-clients"]["spec"]
    grpc, others = route["rules"]
    assert {one["path"]["value"] for one in grpc["matches"]} == {f"/{s}" for s in GRPC_SERVICES}
    assert (grpc["backendRefs"][0]["port"], others["backendRefs"][0]["port"]) == (8001, 8000)
    assert {rule["timeouts"]["request"] for rule in route["rules"]} == {"0s"}  # sessions are long


def test_without_hosts_there_are_no_routes(tmp_path: Path) -> None:
    found = rendered(tmp_path, "h100-0.6b.yaml")
    assert not {kind for kind, _ in found} & {"Ingress", "HTTPRoute"}
    assert [port["name"] for port in found["Service", "auricle-clients"]["spec"]["ports"]] == [
        "http"
    ]


def test_frontends_and_processors_are_spread_over_nodes(tmp_path: Path) -> None:
    found = rendered(tmp_path, "h100-0.6b.yaml", *EVERYTHING)
    parts = found["DynamoGraphDeployment", "auricle"]["spec"]["components"]
    assert {one["name"]: one["replicas"] for one in parts}["Frontend"] == 3
    for name in ("Frontend", "Processor"):
        (spread,) = pods(found)[name]["topologySpreadConstraints"]
        assert spread["labelSelector"]["matchLabels"] == labels("auricle", name)
        assert ("PodDisruptionBudget", f"auricle-{name.lower()}") in found


def test_resources_can_be_set(tmp_path: Path) -> None:
    found = pods(rendered(tmp_path, "h100-0.6b.yaml", *EVERYTHING))
    frontend, pd = (found[name]["containers"][0]["resources"] for name in ("Frontend", "PdWorker"))
    assert frontend["requests"]["cpu"] == "500m"
    assert pd["requests"]["memory"] == pd["limits"]["memory"] == "24Gi"
    assert pd["requests"]["cpu"] == "4"


def test_alerts_and_monitors_agree_about_the_job(tmp_path: Path) -> None:
    found = rendered(tmp_path, "demo.yaml", "--Kubernetes.name=speech")
    rules = found["PrometheusRule", "speech"]["spec"]["groups"][0]["rules"]
    (down,) = [rule for rule in rules if rule["alert"] == "AuricleProcessDown"]
    assert down["expr"] == 'up{job="speech"} == 0'
    monitor = found["PodMonitor", "speech-frontend"]["spec"]
    label = monitor["jobLabel"]
    assert labels("speech")[label] == "speech"
    own = found["ConfigMap", "speech-dashboard"]
    assert own["metadata"]["labels"] == {"grafana_dashboard": "1"}
    assert yaml.safe_load(own["data"]["auricle.json"])["title"]


@pytest.mark.parametrize(
    ("config", "overrides"), [("demo.yaml", ()), ("h100-0.6b.yaml", EVERYTHING)]
)
def test_kubernetes_knows_every_field(
    tmp_path: Path, config: str, overrides: tuple[str, ...]
) -> None:
    """Its own kinds against its published schemas, without fields that they do not have."""
    foreign = set()
    for one in rendered(tmp_path, config, *overrides).values():
        try:
            kubernetes_validate.validate(one, "1.34", strict=True)
        except kubernetes_validate.SchemaNotFoundError:
            foreign.add(one["kind"])
    assert foreign <= {
        *("DynamoGraphDeployment", "HTTPRoute", "PodMonitor", "PrometheusRule", "ScaledObject"),
    }
    (part,) = [
        p for p in pods(rendered(tmp_path, config, *overrides)).items() if p[0] == "Frontend"
    ]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": part[1]}
    kubernetes_validate.validate(pod, "1.34", strict=True)
    pod["spec"]["containers"][0]["livenessProb"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="livenessProb"):
        kubernetes_validate.validate(pod, "1.34", strict=True)


def test_other_settings_need_other_pods(tmp_path: Path) -> None:
    """Kubernetes replaces pods whose template differs; they read their files when they start."""

    def annotations(*overrides: str) -> set[str]:
        found = rendered(tmp_path, "demo.yaml", *overrides)["DynamoGraphDeployment", "auricle"]
        parts = found["spec"]["components"]
        return {one["podTemplate"]["metadata"]["annotations"]["files-sha256"] for one in parts}

    (usual,) = annotations()
    assert annotations() == {usual}
    assert usual not in annotations("--Frontend.max_sessions=7")
