"""Rendered manifests: current, valid against Dynamo's CRDs, built by kustomize."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from auricle.errors import SettingsError
from auricle.rendering.names import labels
from auricle.rendering.write import render
from tests.server import ROOT

pytestmark = pytest.mark.unit
GRAPH, CONFIG = "graphs.e_pd:Frontend", Path("configs/h100-0.6b.yaml")
COMMITTED = ROOT / "deploy/k8s/h100-0.6b"
CRDS = ROOT.parent / "shared/crds"


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    out = tmp_path_factory.mktemp("k8s")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        render(GRAPH, CONFIG, out)
    yield out


def manifests(folder: Path) -> list[dict[str, Any]]:
    return [
        manifest
        for path in sorted(folder.glob("*.yaml"))
        for manifest in yaml.safe_load_all(path.read_text())
    ]


def one(folder: Path, kind: str) -> dict[str, Any]:
    (found,) = [m for m in manifests(folder / "base") if m["kind"] == kind]
    return found


def components(folder: Path) -> dict[str, dict[str, Any]]:
    spec = one(folder, "DynamoGraphDeployment")["spec"]
    return {c["name"]: c for c in spec["components"]}


def test_a_pd_worker_takes_the_gpu_that_it_has_for_itself(rendered: Path) -> None:
    config = yaml.safe_load(one(rendered, "ConfigMap")["data"]["config.yaml"])
    assert config["PdWorker"]["gpu_memory_share"] == 0.9
    assert yaml.safe_load(CONFIG.read_text())["PdWorker"]["gpu_memory_share"] == 0.7


def test_the_committed_manifests_are_current(rendered: Path) -> None:
    fresh = {p.relative_to(rendered): p.read_text() for p in rendered.rglob("*.yaml")}
    kept = {p.relative_to(COMMITTED): p.read_text() for p in COMMITTED.rglob("*.yaml")}
    assert fresh == kept, "run: auricle render graphs.e_pd:Frontend -f configs/h100-0.6b.yaml"


def closed(schema: Any) -> Any:
    """The schema with unknown properties refused, as far as it says which are known."""
    if isinstance(schema, dict):
        found = {key: closed(value) for key, value in schema.items()}
        if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            found.setdefault("additionalProperties", False)
        return found
    return [closed(item) for item in schema] if isinstance(schema, list) else schema


@pytest.mark.skipif(not CRDS.is_dir(), reason="Dynamo's CRDs are not here")
def test_the_deployment_is_valid_against_the_crd(rendered: Path) -> None:
    crd = yaml.safe_load((CRDS / "nvidia.com_dynamographdeployments.yaml").read_text())
    (version,) = [v for v in crd["spec"]["versions"] if v["name"] == "v1beta1"]
    schema = closed(version["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}
    deployment = one(rendered, "DynamoGraphDeployment")
    jsonschema.validate(deployment, schema)
    # The check itself: a typo is found, however deep.
    container = deployment["spec"]["components"][0]["podTemplate"]["spec"]["containers"][0]
    container["livenessProb"] = {}
    with pytest.raises(jsonschema.ValidationError, match="livenessProb"):
        jsonschema.validate(deployment, schema)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not here")
@pytest.mark.parametrize("folder", ["base", "overlays/hpa", "overlays/keda"])
def test_kustomize_builds(rendered: Path, folder: str) -> None:
    built = subprocess.run(
        ["kubectl", "kustomize", str(rendered / folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    found = list(yaml.safe_load_all(built.stdout))
    (deployment,) = [m for m in found if m["kind"] == "DynamoGraphDeployment"]
    (planner,) = [c for c in deployment["spec"]["components"] if c["name"] == "Planner"]
    assert planner["replicas"] == (1 if folder == "base" else 0)


def test_every_policy_budget_and_monitor_selects_pods_that_exist(rendered: Path) -> None:
    pods = [c["podTemplate"]["metadata"]["labels"] for c in components(rendered).values()]
    for manifest in manifests(rendered / "base"):
        selector = manifest.get("spec", {}).get("podSelector") or manifest.get("spec", {}).get(
            "selector"
        )
        if manifest["kind"] in ("NetworkPolicy", "PodDisruptionBudget", "PodMonitor"):
            wanted = selector["matchLabels"].items()
            assert any(wanted <= own.items() for own in pods), manifest["metadata"]["name"]


def test_pods_may_drain_before_they_are_killed(rendered: Path) -> None:
    config = yaml.safe_load(one(rendered, "ConfigMap")["data"]["config.yaml"])
    drain = config["Common"].get("drain_seconds", 45)
    for component in components(rendered).values():
        spec = component["podTemplate"]["spec"]
        sleeps = int(spec["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][1])
        assert spec["terminationGracePeriodSeconds"] > drain + sleeps


def test_shared_memory_and_memory_hold_the_slabs(rendered: Path) -> None:
    # 4096 slots of 104 embeddings of 1024 bfloat16 values: 832 MiB and the headers.
    found = components(rendered)
    for name in ("EncodeWorker", "PdWorker"):
        assert int(found[name]["sharedMemorySize"].removesuffix("Mi")) > 832
        container = found[name]["podTemplate"]["spec"]["containers"][0]
        assert int(container["resources"]["requests"]["memory"].removesuffix("Mi")) > 832


def test_only_workers_have_gpus_and_capabilities(rendered: Path) -> None:
    for name, component in components(rendered).items():
        container = component["podTemplate"]["spec"]["containers"][0]
        gpu = "nvidia.com/gpu" in container["resources"]["requests"]
        added = container["securityContext"]["capabilities"].get("add", [])
        assert gpu == bool(added) == name.endswith("Worker")


def test_the_planner_may_scale_the_two_pools_and_nothing_else(rendered: Path) -> None:
    role = one(rendered, "Role")
    scaling = [r for r in role["rules"] if any("scalingadapters" in x for x in r["resources"])]
    assert {n for r in scaling for n in r["resourceNames"]} == {
        "auricle-encodeworker",
        "auricle-pdworker",
    }
    assert not [r for r in role["rules"] if "*" in (*r["verbs"], *r["resources"])]


def test_the_frontend_alone_is_open_to_clients(rendered: Path) -> None:
    policies = [m for m in manifests(rendered / "base") if m["kind"] == "NetworkPolicy"]
    from_anywhere = [
        p for p in policies for rule in p["spec"].get("ingress", ()) if "from" not in rule
    ]
    (clients,) = from_anywhere
    assert clients["spec"]["podSelector"]["matchLabels"] == labels("auricle", "Frontend")


def test_no_secret_is_in_the_manifests(rendered: Path) -> None:
    assert not [m for m in manifests(rendered / "base") if m["kind"] == "Secret"]


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"Common": {"model": "models/demo"}}, "in pods checkpoints are below /models"),
        ({"Kubernetes": {"profile": None}}, "needs Kubernetes.profile"),
        ({"Kubernetes": {"nam": "x"}}, "unknown key Kubernetes.nam; did you mean name"),
    ],
)
def test_what_a_cluster_could_not_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: dict[str, Any], said: str
) -> None:
    monkeypatch.chdir(ROOT)
    config = yaml.safe_load(CONFIG.read_text())
    for name, values in section.items():
        config[name] = config.get(name, {}) | values
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    with pytest.raises(SettingsError, match=said):
        render(GRAPH, file, tmp_path / "out")
    assert not (tmp_path / "out").exists()
