"""The Helm chart, templated by Helm itself: it makes what `auricle render` writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import helm_python as helm
import pytest
import yaml

import auricle
from auricle.config.settings import SECTIONS
from auricle.core.errors import SettingsError
from auricle.tools.rendering.access import GRPC_SERVICES
from auricle.tools.rendering.chart import CHART, GRAPH, SHIPPED, generated, write_chart
from auricle.tools.rendering.write import render
from auricle_testing.server import ROOT

pytestmark = pytest.mark.unit
Manifests = dict[tuple[str, str], dict[str, Any]]
# The chart always serves gRPC.
USUAL = ("--Frontend.grpc_port=50051", "--Kubernetes.name=speech", "--Kubernetes.namespace=voice")
ALL_OVERRIDES = (
    "--Kubernetes.image=registry/auricle:1",
    "--Kubernetes.image_pull_secrets=[registry]",
    "--Kubernetes.api_keys_secret=our-keys",
    "--Kubernetes.internal_secret=our-secret",
    "--Kubernetes.hub_token_secret=our-token",
    "--Kubernetes.model_claim=our-models",
    "--Kubernetes.model_claim_size=90Gi",
    "--Kubernetes.storage_class=files",
    "--Kubernetes.platform_namespace=dynamo",
    "--Kubernetes.monitoring_namespace=observing",
    "--Kubernetes.hosts=[speech.example.com, '*.speech.example.com']",
    "--Kubernetes.ingress_class=nginx",
    "--Kubernetes.ingress_annotations=['nginx.ingress.kubernetes.io/proxy-read-timeout=3600']",
    "--Kubernetes.tls_secret=speech-tls",
    "--Kubernetes.gateway=infra/public",
    "--Kubernetes.resources=[Frontend:cpu=500m, PdWorker:memory=24Gi]",
    "--Kubernetes.gpu_node_labels=['pool=h100']",
    "--Kubernetes.gpu_node_taints=['nvidia.com/gpu:NoSchedule']",
    "--Frontend.replicas=3",
    "--Frontend.max_sessions=200",
    "--Common.log_transcripts=true",
)
ON_GPUS = ("EncodeWorker", "PdWorker")
TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
ALL_VALUES: dict[str, Any] = {
    "image": "registry/auricle:1",
    "imagePullSecrets": [{"name": "registry"}],
    "secrets": {"apiKeys": "our-keys", "internal": "our-secret", "hubToken": "our-token"},
    "models": {"claim": "our-models", "size": "90Gi", "storageClass": "files"},
    "platformNamespace": "dynamo",
    "monitoring": {"enabled": True, "namespace": "observing"},
    "replicaBounds": True,
    "hosts": ["speech.example.com", "*.speech.example.com"],
    "ingress": {
        "className": "nginx",
        "annotations": {"nginx.ingress.kubernetes.io/proxy-read-timeout": "3600"},
        "tlsSecret": "speech-tls",
    },
    "gateway": {"name": "public", "namespace": "infra"},
    "resources": {
        "Frontend": {"requests": {"cpu": "500m"}},
        "PdWorker": {"requests": {"memory": "24Gi"}, "limits": {"memory": "24Gi"}},
    },
    "nodeSelector": {name: {"pool": "h100"} for name in ON_GPUS},
    "tolerations": {name: [TOLERATION] for name in ON_GPUS},
    "replicas": {"Frontend": 3},
    "settings": {"Frontend": {"max_sessions": 200}, "Common": {"log_transcripts": True}},
}


@pytest.fixture(autouse=True)
def repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="module")
def chart() -> Iterator[helm.Chart]:
    with helm.Chart.load(str(ROOT / CHART)) as loaded:
        yield loaded


def comparable(documents: Iterator[dict[str, Any]]) -> Manifests:
    """Manifests by kind and name; settings are read, as their text may have another order."""
    found = {}
    for one in documents:
        if "config.yaml" in one.get("data", {}):
            settings = yaml.safe_load(one["data"]["config.yaml"])
            for section in settings.values():
                section.pop("replicas", None)  # pods do not read it
            one["data"]["config.yaml"] = settings
        if one["kind"] == "PersistentVolumeClaim":
            one["metadata"].pop("annotations", None)  # Helm's own
        if one["kind"] == "DynamoGraphDeployment":
            for part in one["spec"]["components"]:
                part["podTemplate"]["metadata"]["annotations"].pop("files-sha256")
        found[one["kind"], one["metadata"]["name"]] = one
    return found


def templated(chart: helm.Chart, configuration: str = "demo", **values: Any) -> Manifests:
    files = chart.render(
        {"configuration": configuration, **values}, name="speech", namespace="voice"
    )
    return comparable(
        one for text in files.values() for one in yaml.safe_load_all(text) if one is not None
    )


def rendered(out: Path, configuration: str, *overrides: str, folders: str = "base") -> Manifests:
    """The manifests of these folders, without kustomize's own."""
    written = render(GRAPH, Path(f"configs/{configuration}.yaml"), out, (*overrides, *USUAL))
    return comparable(
        one
        for path in written
        if path.parent.name in folders.split()
        for one in yaml.safe_load_all(path.read_text())
        if "kustomize" not in one["apiVersion"]
    )


@pytest.mark.parametrize("configuration", SHIPPED)
def test_it_makes_what_render_writes(chart: helm.Chart, tmp_path: Path, configuration: str) -> None:
    assert templated(chart, configuration) == rendered(tmp_path, configuration)


def test_values_change_what_overrides_change(chart: helm.Chart, tmp_path: Path) -> None:
    folders = "base monitoring gateway replica-bounds"
    expected = rendered(tmp_path, "h100-0.6b", *ALL_OVERRIDES, folders=folders)
    assert {kind for kind, _ in expected} > {"Ingress", "HTTPRoute", "PrometheusRule", "PodMonitor"}
    assert templated(chart, "h100-0.6b", **ALL_VALUES) == expected


def test_an_existing_claim_is_used_and_not_created(chart: helm.Chart, tmp_path: Path) -> None:
    override = "--Kubernetes.model_claim_exists=true"
    expected = rendered(tmp_path, "h100-0.6b", override, "--Kubernetes.model_claim=our-models")
    assert ("PersistentVolumeClaim", "our-models") not in expected
    assert ("Job", "speech-model-download") in expected
    models = {"claim": "our-models", "existing": True}
    assert templated(chart, "h100-0.6b", models=models) == expected


def test_uninstalling_keeps_the_checkpoints(chart: helm.Chart) -> None:
    values = {"configuration": "h100-0.6b"}
    text = "\n---\n".join(chart.render(values, name="speech", namespace="voice").values())
    kept = {
        one["kind"]
        for one in yaml.safe_load_all(text)
        if one and "helm.sh/resource-policy" in one["metadata"].get("annotations", {})
    }
    assert kept == {"PersistentVolumeClaim"}


def test_all_pods_pull_the_image_with_the_secrets(tmp_path: Path) -> None:
    found = rendered(tmp_path, "h100-0.6b", "--Kubernetes.image_pull_secrets=[registry, other]")
    parts = found["DynamoGraphDeployment", "speech"]["spec"]["components"]
    pods = [part["podTemplate"]["spec"] for part in parts]
    pods.append(found["Job", "speech-model-download"]["spec"]["template"]["spec"])
    assert all(pod["imagePullSecrets"] == [{"name": "registry"}, {"name": "other"}] for pod in pods)


@pytest.mark.parametrize("autoscaler", ["hpa", "keda"])
def test_another_autoscaler_takes_the_planners_place(
    chart: helm.Chart, tmp_path: Path, autoscaler: str
) -> None:
    found = templated(chart, "h100-0.6b", autoscaler=autoscaler)
    parts = found["DynamoGraphDeployment", "speech"]["spec"]["components"]
    assert {one["name"]: one["replicas"] for one in parts}["Planner"] == 0
    scaling = rendered(tmp_path, "h100-0.6b", folders=autoscaler)
    assert scaling and scaling.items() <= found.items()


def test_other_settings_replace_pods(chart: helm.Chart) -> None:
    def annotations(**values: Any) -> set[str]:
        text = chart.render({"configuration": "demo", **values}, name="a", namespace="b")
        documents = yaml.safe_load_all(text["auricle/templates/auricle.yaml"])
        (deployment,) = (one for one in documents if one["kind"] == "DynamoGraphDeployment")
        parts = deployment["spec"]["components"]
        return {one["podTemplate"]["metadata"]["annotations"]["files-sha256"] for one in parts}

    (usual,) = annotations()
    (other,) = annotations(settings={"Frontend": {"max_sessions": 7}})
    assert other != usual == annotations(image="other").pop()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"configuration": "nothing"}, "configuration"),
        ({"settings": {"Frontend": {"max_sesions": 1}}}, "max_sesions"),
        ({"settings": {"Frontend": {"max_sessions": 0}}}, "minimum"),
        ({"settings": {"Frontend": {"host": "127.0.0.1"}}}, "host"),  # rendered
        ({"settings": {"EncodeWorker": {"slots": 1}}}, "slots"),  # determines memory
        ({"replicas": {"Fronted": 2}}, "Fronted"),
        ({"autoscaler": "hpa", "configuration": "demo"}, "planner's bounds"),
        ({"ingress": {"className": "nginx"}}, "need hosts"),
    ],
)
def test_wrong_values_are_named(chart: helm.Chart, values: dict[str, Any], said: str) -> None:
    with pytest.raises(helm.HelmError, match=said):
        chart.render(values, name="speech", namespace="voice")


def test_the_committed_chart_is_current() -> None:
    shipped = {name: Path(f"configs/{name}.yaml") for name in SHIPPED}
    fresh = generated(shipped, GRAPH)
    files = [*(ROOT / CHART / "files").iterdir(), ROOT / CHART / "values.schema.json"]
    kept = {str(path.relative_to(ROOT / CHART)): path.read_text() for path in files}
    assert fresh == kept, "run: make interfaces"
    about = yaml.safe_load((ROOT / CHART / "Chart.yaml").read_text())
    assert about["version"] == about["appVersion"] == auricle.__version__


def test_helm_has_no_complaint() -> None:
    found = helm.lint(str(ROOT / CHART))
    complaints = [one for one in found["messages"] if "icon" not in one["error"]]
    assert not complaints and not found["errors"]


def test_all_components_can_be_named(chart: helm.Chart) -> None:
    templated(chart, replicas=dict.fromkeys(SECTIONS, 1))


def test_the_templates_have_the_paths_of_grpc() -> None:
    text = (ROOT / CHART / "templates/clients.yaml").read_text()
    assert all(f'"/{service}"' in text for service in GRPC_SERVICES)


def test_a_configuration_of_ones_own_becomes_a_chart(tmp_path: Path) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text((ROOT / "configs/whisper.yaml").read_text())
    out, graph = tmp_path / "chart", "graphs.e_pd_words:Frontend"
    aligner = ("--Common.align_model=whisper-base",)
    write_chart(out, {"mine": config}, graph, aligner)
    assert [path.name for path in (out / "files").glob("m*.json")] != []
    with helm.Chart.load(str(out)) as own:
        files = own.render({}, name="speech", namespace="voice")
    found = comparable(
        one for text in files.values() for one in yaml.safe_load_all(text) if one is not None
    )
    parts = found["DynamoGraphDeployment", "speech"]["spec"]["components"]
    assert "AlignWorker" in [part["name"] for part in parts]


def test_a_chart_is_written_in_the_repository_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match="run this in auricle's repository"):
        write_chart(tmp_path / "chart", {"x": Path("x.yaml")}, GRAPH)
