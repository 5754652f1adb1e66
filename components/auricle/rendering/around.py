"""The manifests beside the deployment: configuration, RBAC, storage, budgets, monitors."""

from __future__ import annotations

import yaml

from auricle.errors import SettingsError
from auricle.rendering.names import (
    MODELS_PATH,
    SCRATCH_PATH,
    Manifest,
    adapter,
    kebab,
    labels,
    metadata,
)
from auricle.rendering.pods import container_security, pod_security, scratch
from auricle.rendering.target import CONFIG_FILE, PROFILE_FILE, Target, named_models


def config_map(target: Target) -> Manifest:
    """Return the ConfigMap with the configuration of pods and the planner's capacity profile.

    Raises SettingsError if the profile cannot be read.
    """
    data = {CONFIG_FILE: yaml.safe_dump(dict(target.sections), sort_keys=False)}
    if "Planner" in target.components and (profile := target.cluster.profile) is not None:
        try:
            data[PROFILE_FILE] = profile.read_text()
        except OSError as error:
            raise SettingsError(f"cannot read Kubernetes.profile {profile}: {error}") from None
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(f"{target.cluster.name}-config", target.cluster.namespace),
        "data": data,
    }


def model_cache(target: Target) -> list[Manifest]:
    """Return a volume claim for checkpoints and, for those with a name, a job that pulls them."""
    cluster = target.cluster
    claim: Manifest = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(cluster.model_claim, cluster.namespace),
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": cluster.model_claim_size}},
        },
    }
    if cluster.storage_class:
        claim["spec"]["storageClassName"] = cluster.storage_class
    names = named_models(target.settings["Frontend"])
    return [claim, _download(target, names)] if names else [claim]


def _download(target: Target, names: list[str]) -> Manifest:
    cluster = target.cluster
    token = {"name": cluster.hub_token_secret, "key": "token", "optional": True}
    container: Manifest = {
        "name": "download",
        "image": cluster.image,
        "command": ["auricle", "models", "pull", *names],
        "env": [
            {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": token}},
            {"name": "AURICLE_MODELS", "value": MODELS_PATH},
            {"name": "HOME", "value": SCRATCH_PATH},
        ],
        "securityContext": container_security(),
        "volumeMounts": [
            {"name": "models", "mountPath": MODELS_PATH},
            {"name": "scratch", "mountPath": SCRATCH_PATH},
        ],
    }
    template: Manifest = {
        # Without the deployment's labels: its NetworkPolicies would block access to the hub.
        "metadata": {"labels": {"app.kubernetes.io/name": f"{cluster.name}-model-download"}},
        "spec": {
            "restartPolicy": "OnFailure",
            "automountServiceAccountToken": False,
            "securityContext": pod_security(),
            "containers": [container],
            "volumes": [
                {
                    "name": "models",
                    "persistentVolumeClaim": {"claimName": cluster.model_claim},
                },
                scratch(),
            ],
        },
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(f"{cluster.name}-model-download", cluster.namespace),
        "spec": {"backoffLimit": 4, "template": template},
    }


def planner_rights(target: Target) -> list[Manifest]:
    """Return the planner's ServiceAccount, Role and RoleBinding.

    It may scale the pools, hold its lease and use Dynamo's discovery, and nothing else.
    """
    cluster = target.cluster
    name = f"{cluster.name}-planner"
    meta = metadata(name, cluster.namespace)
    adapters = [adapter(cluster.name, worker) for worker in target.pools]
    kind = "dynamographdeploymentscalingadapters"
    watching = ["get", "list", "watch"]
    rules = [
        _rule("nvidia.com", [kind], ["get"], adapters),
        _rule("nvidia.com", [f"{kind}/scale"], ["get", "patch"], adapters),
        # RBAC cannot restrict `create` to a name.
        _rule("coordination.k8s.io", ["leases"], ["create"]),
        _rule("coordination.k8s.io", ["leases"], ["get", "update"], [name]),
        # Dynamo's discovery.
        _rule("discovery.k8s.io", ["endpointslices"], watching),
        _rule("", ["endpoints", "pods"], watching),
        _rule(
            "nvidia.com",
            ["dynamoworkermetadatas"],
            [*watching, "create", "update", "patch", "delete"],
        ),
    ]
    rbac = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": meta, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": cluster.namespace}],
        },
    ]


def _rule(
    group: str, resources: list[str], verbs: list[str], names: list[str] | None = None
) -> Manifest:
    found: Manifest = {"apiGroups": [group], "resources": resources, "verbs": verbs}
    if names is not None:
        found["resourceNames"] = names
    return found


def disruption_budgets(target: Target) -> list[Manifest]:
    """Return a budget per component: one pod at a time is evicted, and it drains first."""
    cluster = target.cluster
    return [
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata(f"{cluster.name}-{kebab(name)}", cluster.namespace),
            "spec": {
                "maxUnavailable": 1,
                "selector": {"matchLabels": labels(cluster.name, name)},
            },
        }
        for name in target.components
    ]


def pod_monitors(target: Target) -> list[Manifest]:
    """Return a PodMonitor per component; the Prometheus operator provides this kind."""
    cluster = target.cluster
    return [
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PodMonitor",
            "metadata": metadata(f"{cluster.name}-{kebab(name)}", cluster.namespace),
            "spec": {
                "selector": {"matchLabels": labels(cluster.name, name)},
                "podMetricsEndpoints": [
                    {"port": "http" if name == "Frontend" else "system", "path": "/metrics"}
                ],
            },
        }
        for name in target.components
    ]
