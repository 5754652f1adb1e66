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

from auricle.checkpoints.files import open_checkpoint
from auricle.config.common import MAX_PLANNERS, MAX_REPLICAS
from auricle.config.kubernetes import KubernetesSettings
from auricle.config.settings import EncodeWorkerSettings, FrontendSettings, PdWorkerSettings
from auricle.core.errors import SettingsError
from auricle.launcher.config import load_config, settings_for
from auricle.tools.rendering.target import Target, labels
from auricle.tools.rendering.write import render
from auricle_testing.checkpoints.whisper import random_whisper
from auricle_testing.server import ROOT

pytestmark = pytest.mark.unit
GRAPH, CONFIG = "graphs.e_pd:Frontend", Path("configs/h100-0.6b.yaml")
CRDS = ROOT.parent / "shared/crds"
needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not here")
# The kinds that every cluster with the Dynamo platform has.
IN_EVERY_CLUSTER = {
    ("v1", "ConfigMap"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "Service"),
    ("v1", "ServiceAccount"),
    ("batch/v1", "Job"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("policy/v1", "PodDisruptionBudget"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("nvidia.com/v1beta1", "DynamoGraphDeployment"),
}


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


@pytest.mark.parametrize("name", ["h100-0.6b", "h100-1.7b"])
def test_the_committed_manifests_are_current(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    config, committed = Path("configs") / f"{name}.yaml", ROOT / "deploy/k8s" / name
    render(GRAPH, config, tmp_path)
    fresh = {p.relative_to(tmp_path): p.read_text() for p in tmp_path.rglob("*.yaml")}
    kept = {p.relative_to(committed): p.read_text() for p in committed.rglob("*.yaml")}
    assert fresh == kept, f"run: auricle render {GRAPH} -f {config}"


def closed(schema: Any) -> Any:
    """The schema with unknown properties rejected wherever it lists the known ones."""
    if isinstance(schema, dict):
        found = {key: closed(value) for key, value in schema.items()}
        if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            found.setdefault("additionalProperties", False)
        return found
    return [closed(item) for item in schema] if isinstance(schema, list) else schema


@pytest.mark.skipif(not CRDS.is_dir(), reason="Dynamo's CRDs are not here")
def test_the_deployment_is_valid_against_the_crd(rendered: Path) -> None:
    text = (CRDS / "nvidia.com_dynamographdeployments.yaml").read_text()
    crd = yaml.load(text, Loader=yaml.CSafeLoader)  # seconds faster than Python's
    (version,) = [v for v in crd["spec"]["versions"] if v["name"] == "v1beta1"]
    schema = closed(version["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}
    deployment = one(rendered, "DynamoGraphDeployment")
    jsonschema.validate(deployment, schema)
    # Check the check itself: it finds a typo at any depth.
    container = deployment["spec"]["components"][0]["podTemplate"]["spec"]["containers"][0]
    container["livenessProb"] = {}
    with pytest.raises(jsonschema.ValidationError, match="livenessProb"):
        jsonschema.validate(deployment, schema)


def test_the_base_needs_nothing_but_kubernetes_and_dynamo(rendered: Path) -> None:
    needed = {
        (m["apiVersion"], m["kind"])
        for m in manifests(rendered / "base")
        if m["kind"] != "Kustomization"  # only kubectl uses it
    }
    assert needed == IN_EVERY_CLUSTER


def test_every_manifest_is_listed_by_its_kustomization(rendered: Path) -> None:
    for listing in rendered.rglob("kustomization.yaml"):
        resources = yaml.safe_load(listing.read_text())["resources"]
        files = {p.name for p in listing.parent.glob("*.yaml")} - {listing.name}
        assert {r for r in resources if not r.startswith("../")} == files, listing


def test_without_a_planner_the_pools_have_no_bounds_to_render(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    config = yaml.safe_load(CONFIG.read_text())
    config["Kubernetes"]["autoscaling"] = "none"
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    render(GRAPH, tmp_path / "config.yaml", tmp_path / "out")
    folders = {str(p.parent.relative_to(tmp_path / "out")) for p in tmp_path.rglob("out/**/*.yaml")}
    assert folders == {"base", "overlays/monitoring"}


def built(folder: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        ["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


@needs_kubectl
@pytest.mark.parametrize("folder", ["base", "overlays/hpa", "overlays/keda"])
def test_monitoring_is_added_to_the_base_and_to_every_overlay(
    rendered: Path, tmp_path: Path, folder: str
) -> None:
    tree = tmp_path / "k8s"
    shutil.copytree(rendered, tree)
    own = {"resources": [f"../{folder}"], "components": ["../overlays/monitoring"]}
    (tree / "own").mkdir()
    (tree / "own/kustomization.yaml").write_text(yaml.safe_dump(own))
    alone = built(tree / "overlays/monitoring")
    assert {m["kind"] for m in alone} == {"ConfigMap", "PodMonitor", "PrometheusRule"}
    both = built(tree / "own")
    assert len(both) == len(built(tree / folder)) + len(alone)


@needs_kubectl
@pytest.mark.parametrize("folder", ["base", "overlays/hpa", "overlays/keda"])
def test_kustomize_builds(rendered: Path, folder: str) -> None:
    found = built(rendered / folder)
    (deployment,) = [m for m in found if m["kind"] == "DynamoGraphDeployment"]
    (planner,) = [c for c in deployment["spec"]["components"] if c["name"] == "Planner"]
    assert planner["replicas"] == (1 if folder == "base" else 0)


def test_every_policy_budget_and_monitor_selects_pods_that_exist(rendered: Path) -> None:
    pods = [c["podTemplate"]["metadata"]["labels"] for c in components(rendered).values()]
    selecting = [*manifests(rendered / "base"), *manifests(rendered / "overlays/monitoring")]
    for manifest in selecting:
        selector = manifest.get("spec", {}).get("podSelector") or manifest.get("spec", {}).get(
            "selector"
        )
        if manifest["kind"] in ("NetworkPolicy", "PodDisruptionBudget", "PodMonitor"):
            wanted = selector["matchLabels"].items()
            assert any(wanted <= own.items() for own in pods), manifest["metadata"]["name"]
    for name in components(rendered):
        monitored = [
            m["spec"]["selector"]["matchLabels"] for m in selecting if m["kind"] == "PodMonitor"
        ]
        assert labels("auricle", name) in monitored


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


@pytest.mark.parametrize(
    ("pd", "mib"),
    [
        ({}, 1024),
        ({"kv_cache_gib": 3}, 3072),
        # 32 tokens of 2 × 3 layers × 2 heads × 64 values in float32 are 96 KiB.
        ({"kv_blocks": 2048}, 192),
        ({"kv_blocks": 2048, "model": "/nowhere"}, 1024),
    ],
)
def test_the_memory_of_a_pod_without_a_gpu_holds_its_kv_cache(pd: dict[str, Any], mib: int) -> None:
    worker = PdWorkerSettings(**{"model": ROOT / "models/demo", **pd})
    settings = {"EncodeWorker": EncodeWorkerSettings(), "PdWorker": worker}
    assert Target(KubernetesSettings(), {}, settings).kv_mib("PdWorker") == mib


def test_whispers_pods_hold_what_its_requests_attend_to(tmp_path: Path) -> None:
    random_whisper(tmp_path)
    config = load_config(ROOT / "configs/whisper.yaml", [f"--Common.model={tmp_path}"])
    names = ("EncodeWorker", "PdWorker")
    settings = {name: settings_for(name, config, "here") for name in names}
    target = Target(KubernetesSettings(), {}, settings)
    checkpoint = open_checkpoint(tmp_path)
    width = checkpoint.geometry.hidden_size * 4
    slots = settings["EncodeWorker"].slots
    assert target.slab_mib("EncodeWorker") * 2**20 >= slots * 1500 * width
    position = 2 * checkpoint.geometry.text_layers * width  # keys and values, all heads
    each = (1500 + settings["PdWorker"].max_model_len) * position
    assert target.kv_mib("PdWorker") * 2**20 >= settings["PdWorker"].max_requests * each


def test_only_workers_have_gpus_and_capabilities(rendered: Path) -> None:
    for name, component in components(rendered).items():
        container = component["podTemplate"]["spec"]["containers"][0]
        gpu = "nvidia.com/gpu" in container["resources"]["requests"]
        added = container["securityContext"]["capabilities"].get("add", [])
        assert gpu == bool(added) == name.endswith("Worker")


def test_no_pod_fills_a_nodes_disk(rendered: Path) -> None:
    for name, spec in pod_specs(rendered).items():
        (container,) = spec["containers"]
        (scratch,) = (v["emptyDir"] for v in spec["volumes"] if v["name"] == "scratch")
        limit = container["resources"]["limits"]["ephemeral-storage"]
        assert container["resources"]["requests"]["ephemeral-storage"] == limit, name
        assert mib(limit) > mib(scratch["sizeLimit"]) > 1_000
        if name == "Frontend":
            uploads = FrontendSettings().max_stored_upload_bytes >> 20
            assert mib(scratch["sizeLimit"]) > uploads + 1_000


def mib(size: str) -> int:
    return int(size.removesuffix("Mi"))


def pod_specs(folder: Path) -> dict[str, dict[str, Any]]:
    """The pod specs of every component, and of the job that downloads a checkpoint."""
    found = {name: c["podTemplate"]["spec"] for name, c in components(folder).items()}
    return found | {"download": one(folder, "Job")["spec"]["template"]["spec"]}


def test_no_container_may_do_more_than_it_must(rendered: Path) -> None:
    for name, spec in pod_specs(rendered).items():
        own = spec["securityContext"]
        assert own["runAsNonRoot"] and own["runAsUser"] == own["runAsGroup"] == 10001
        assert own["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = spec["containers"]
        limits = container["securityContext"]
        assert limits["readOnlyRootFilesystem"] and not limits["allowPrivilegeEscalation"]
        assert limits["capabilities"]["drop"] == ["ALL"]
        assert set(limits["capabilities"].get("add", ())) <= {"IPC_LOCK"}, name
        assert not {"privileged", "hostNetwork", "hostIPC", "hostPID"} & (limits | spec).keys()
        writable = {m["mountPath"] for m in container["volumeMounts"] if not m.get("readOnly")}
        assert writable == ({"/tmp", "/models"} if name == "download" else {"/tmp"})


def test_without_rdma_no_container_has_a_capability(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    config = yaml.safe_load(CONFIG.read_text())
    config["Kubernetes"]["rdma_resource"] = ""
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    render(GRAPH, tmp_path / "config.yaml", tmp_path / "out")
    for spec in pod_specs(tmp_path / "out").values():
        (container,) = spec["containers"]
        assert "add" not in container["securityContext"]["capabilities"]
    settings = yaml.safe_load(one(tmp_path / "out", "ConfigMap")["data"]["config.yaml"])
    assert settings["Common"]["slab"] == "host"  # CUDA IPC does not reach another pod


def test_pods_with_gpus_go_to_the_nodes_that_are_named(
    rendered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    config = yaml.safe_load(CONFIG.read_text())
    config["Kubernetes"] |= {
        "gpu_node_labels": ["pool=h100"],
        "gpu_node_taints": ["nvidia.com/gpu:NoSchedule", "team=speech:NoExecute"],
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    render(GRAPH, tmp_path / "config.yaml", tmp_path / "out")
    specs = {
        name: component["podTemplate"]["spec"]
        for name, component in components(tmp_path / "out").items()
    }
    for name in ("EncodeWorker", "PdWorker"):
        assert specs[name]["nodeSelector"] == {"pool": "h100"}
        assert specs[name]["tolerations"] == [
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "team", "operator": "Equal", "value": "speech", "effect": "NoExecute"},
        ]
    assert not {"nodeSelector", "tolerations"} & specs["Frontend"].keys()
    unset = components(rendered)["PdWorker"]["podTemplate"]["spec"]
    assert not {"nodeSelector", "tolerations"} & unset.keys()


def test_every_component_has_the_deployments_secret_and_the_job_has_not(rendered: Path) -> None:
    config = yaml.safe_load(one(rendered, "ConfigMap")["data"]["config.yaml"])
    assert config["Common"]["secret_file"] == "/etc/auricle-secret/secrets"
    assert "insecure_internal" not in config["Common"]
    specs = pod_specs(rendered)
    job = specs.pop("download")
    assert not [v for v in job["volumes"] if "secret" in v]
    assert job["automountServiceAccountToken"] is False
    for spec in specs.values():
        (volume,) = [v for v in spec["volumes"] if v["name"] == "secret"]
        assert volume["secret"] == {"secretName": "auricle-internal", "defaultMode": 0o440}
        mounts = {m["name"]: m for m in spec["containers"][0]["volumeMounts"]}
        # Without `subPath`; Kubernetes does not update files mounted with it.
        assert mounts["secret"] == {
            "name": "secret",
            "mountPath": "/etc/auricle-secret",
            "readOnly": True,
        }


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


def test_the_api_server_is_told_the_bounds_of_pools_and_components(rendered: Path) -> None:
    pools, deployment = [
        [v["expression"] for v in m["spec"]["validations"]]
        for m in manifests(rendered / "overlays/replica-bounds")
        if m["kind"] == "ValidatingAdmissionPolicy"
    ]
    (encode, pd) = pools
    assert "'auricle-encodeworker'" in encode and encode.endswith(".replicas <= 8")
    assert "'auricle-pdworker'" in pd and pd.endswith(".replicas <= 24")
    most = {"EncodeWorker": 8, "PdWorker": 24, "Planner": MAX_PLANNERS}
    for name, expression in zip(components(rendered), deployment, strict=True):
        bound = most.get(name, MAX_REPLICAS)
        assert f"c.name != '{name}'" in expression and f"c.replicas <= {bound})" in expression


def test_autoscalers_ask_for_no_more_than_the_planner_may(rendered: Path) -> None:
    hpa = [m for m in manifests(rendered / "overlays/hpa") if "maxReplicas" in m.get("spec", {})]
    keda = [m for m in manifests(rendered / "overlays/keda") if m["kind"] == "ScaledObject"]
    assert [m["spec"]["maxReplicas"] for m in hpa] == [8, 24]
    assert [m["spec"]["maxReplicaCount"] for m in keda] == [8, 24]


def test_no_secret_is_in_the_manifests(rendered: Path) -> None:
    assert not [m for m in manifests(rendered / "base") if m["kind"] == "Secret"]


def rendered_with(tmp_path: Path, **models: str) -> Path:
    """Manifests of a configuration with these models."""
    config = yaml.safe_load(CONFIG.read_text())
    config["Common"] |= models
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(config))
    render(GRAPH, tmp_path / "mine.yaml", tmp_path / "out")
    return tmp_path / "out"


def test_a_job_pulls_the_models_that_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    out = rendered_with(tmp_path, translate_model="Qwen/Qwen3-4B", align_model="/models/aligner")
    (container,) = one(out, "Job")["spec"]["template"]["spec"]["containers"]
    names = ["Qwen/Qwen3-ASR-0.6B", "Qwen/Qwen3-4B"]
    assert container["command"] == ["auricle", "models", "pull", *names]
    # The job writes the models to the folder in which the components look for them.
    folder = {"name": "AURICLE_MODELS", "value": "/models"}
    assert folder in container["env"]
    for name, component in components(out).items():
        (main,) = component["podTemplate"]["spec"]["containers"]
        assert (folder in main["env"]) is (name != "Planner")


def test_without_names_nothing_is_pulled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    out = rendered_with(tmp_path, model="/models/Qwen3-ASR-0.6B")
    assert not [one for one in manifests(out / "base") if one["kind"] == "Job"]


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"Common": {"speaker_model": "owner/speakers"}}, "in pods checkpoints are below /models"),
        ({"Common": {"model": "models/demo"}}, "in pods checkpoints are below /models"),
        (
            {"Kubernetes": {"profile": None, "autoscaling": "planner"}},
            "needs Kubernetes.profile",
        ),
        ({"Kubernetes": {"resources": ["Pd:cpu=1"]}}, "resources names Pd; .* has EncodeWorker"),
        ({"Kubernetes": {"resources": ["PdWorker:cpu=1 GiB"]}}, "Kubernetes.resources is .* form"),
        ({"Kubernetes": {"gateway": "infra/public"}}, "gateway need Kubernetes.hosts"),
        ({"EncodeWorker": {"replicas": 9}}, "EncodeWorker.replicas is 9, more than the 8"),
        ({"PdWorker": {"replicas": 10**9}}, "PdWorker.replicas is 1000000000: .* 64"),
        ({"Planner": {"pd": {"maximum": 10**9}}}, "Planner.pd.maximum is 1000000000: .* 10000"),
        ({"Kubernetes": {"nam": "x"}}, "Kubernetes.nam: unknown key; did you mean name"),
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


def test_a_graph_with_dynamos_own_frontend_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"render graphs\.e_pd:Frontend"):
        render("graphs.dynamo_frontend:DynamoFrontend", CONFIG, tmp_path / "k8s")
    assert not (tmp_path / "k8s").exists()


def test_the_align_pool_has_pods_of_its_own(tmp_path: Path) -> None:
    config = yaml.safe_load(CONFIG.read_text())
    config["Common"]["align_model"] = "/models/Qwen3-ForcedAligner-0.6B"
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        render("graphs.e_pd_align:Frontend", file, tmp_path / "k8s")
    found = components(tmp_path / "k8s")
    for name in ("AlignEncodeWorker", "AlignWorker"):
        main = found[name]["podTemplate"]["spec"]["containers"][0]
        assert main["command"] == ["auricle", "component", name]
        # Dynamo would confuse two components of the same type.
        assert "type" not in found[name]
        assert found[name]["scalingAdapter"] == {}
    role = one(tmp_path / "k8s", "Role")
    (adapters,) = {
        tuple(r["resourceNames"])
        for r in role["rules"]
        if "nvidia.com" in r["apiGroups"]
        if "resourceNames" in r
    }
    assert adapters[2:] == ("auricle-alignencodeworker", "auricle-alignworker")
    policies = {
        m["metadata"]["name"]: m["spec"]
        for m in manifests(tmp_path / "k8s/base")
        if m["kind"] == "NetworkPolicy"
    }
    readers = policies["auricle-embeddings-align-encode-worker"]["ingress"][0]["from"]
    named = [one["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for one in readers]
    assert named == ["align-encode-worker", "align-worker"]

    hpa = [
        m for m in manifests(tmp_path / "k8s/overlays/hpa") if "minReplicas" in m.get("spec", {})
    ]
    assert [m["spec"]["minReplicas"] for m in hpa[2:]] == [1, 1]
    keda = [m for m in manifests(tmp_path / "k8s/overlays/keda") if m["kind"] == "ScaledObject"]
    assert [m["spec"]["minReplicaCount"] for m in keda[2:]] == [0, 0]
    # An empty pool has no slots that could fill up: a request starts it.
    for scaled in keda[2:]:
        own, asking = [t["metadata"]["query"] for t in scaled["spec"]["triggers"]]
        assert "slots_share" in own
        assert 'sessions_asking{asked="words"}' in asking
    assert 'pool="align_encode_worker"' in keda[2]["spec"]["triggers"][0]["metadata"]["query"]


def test_an_aligner_that_is_the_model_reads_from_the_encode_workers(tmp_path: Path) -> None:
    config = yaml.safe_load(CONFIG.read_text())
    config["Common"]["align_model"] = config["Common"]["model"]
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        render("graphs.e_pd_words:Frontend", file, tmp_path / "k8s")
    assert "AlignEncodeWorker" not in components(tmp_path / "k8s")
    policies = {
        m["metadata"]["name"]: m["spec"]
        for m in manifests(tmp_path / "k8s/base")
        if m["kind"] == "NetworkPolicy"
    }
    readers = policies["auricle-embeddings-encode-worker"]["ingress"][0]["from"]
    named = [one["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for one in readers]
    assert named == ["encode-worker", "pd-worker", "align-worker"]


def test_an_aligner_that_no_pod_has_is_refused(tmp_path: Path) -> None:
    config = yaml.safe_load(CONFIG.read_text())
    config["Common"]["align_model"] = "models/demo-aligner"
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    with pytest.raises(SettingsError, match=r"Common\.align_model is models/demo-aligner; in pods"):
        render("graphs.e_pd_align:Frontend", file, tmp_path / "k8s")


def test_the_diarize_pool_has_pods_of_its_own(tmp_path: Path) -> None:
    config = yaml.safe_load(CONFIG.read_text())
    config["Common"]["speaker_model"] = "/models/speakers"
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        render("graphs.e_pd_diarize:Frontend", file, tmp_path / "k8s")
    found = components(tmp_path / "k8s")["DiarizeWorker"]
    main = found["podTemplate"]["spec"]["containers"][0]
    assert main["command"] == ["auricle", "component", "DiarizeWorker"]
    assert "type" not in found
    assert found["scalingAdapter"] == {}


def test_the_translate_pool_has_pods_with_an_engine(tmp_path: Path) -> None:
    config = yaml.safe_load(CONFIG.read_text())
    config["Common"]["translate_model"] = "/models/Qwen3-4B"
    config["TranslateWorker"] = {"processes_per_device": 2, "replicas": 0}
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        render("graphs.e_pd_translate:Frontend", file, tmp_path / "k8s")
    found = components(tmp_path / "k8s")["TranslateWorker"]
    main = found["podTemplate"]["spec"]["containers"][0]
    assert main["command"] == ["auricle", "component", "TranslateWorker"]
    assert "type" not in found and found["replicas"] == 0
    assert found["scalingAdapter"] == {}
    # vLLM's processes communicate through shared memory, and the pod has a GPU of its own.
    assert found["sharedMemorySize"] == "1024Mi"
    assert main["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert "UCX_TLS" not in {one["name"] for one in main["env"]}  # it receives no embeddings
    said = one(tmp_path / "k8s", "ConfigMap")["data"]["config.yaml"]
    assert yaml.safe_load(said)["TranslateWorker"]["gpu_memory_share"] == 0.9
    assert "processes_per_device" not in yaml.safe_load(said)["TranslateWorker"]


def test_a_translator_that_no_pod_has_is_refused(tmp_path: Path) -> None:
    config = yaml.safe_load(CONFIG.read_text())
    config["Common"]["translate_model"] = "models/demo-translate"
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    with pytest.raises(SettingsError, match=r"Common\.translate_model is models/demo-translate"):
        render("graphs.e_pd_translate:Frontend", file, tmp_path / "k8s")
