"""What a deployment needs around it: configuration, rights, storage, budgets, monitors."""

from __future__ import annotations

import yaml

from auricle.errors import SettingsError
from auricle.rendering.names import MODELS_PATH, Manifest, kebab, labels, metadata
from auricle.rendering.target import CONFIG_FILE, PROFILE_FILE, Target


def config_map(target: Target) -> Manifest:
    """The configuration as pods read it, and the planner's profile."""
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
    """A volume for checkpoints, and a job that fills it once."""
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
    return [claim, _download(target)] if cluster.model_repository else [claim]


def _download(target: Target) -> Manifest:
    cluster = target.cluster
    model = str(target.settings["Frontend"].model)
    token = {"name": cluster.hub_token_secret, "key": "token", "optional": True}
    container: Manifest = {
        "name": "download",
        "image": cluster.image,
        "command": ["hf", "download", cluster.model_repository, "--local-dir", model],
        "env": [
            {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": token}},
            {"name": "HF_HOME", "value": f"{MODELS_PATH}/.hub"},
        ],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "models", "mountPath": MODELS_PATH}],
    }
    template: Manifest = {
        # Not part of the deployment: its policies would not let it reach the hub.
        "metadata": {"labels": {"app.kubernetes.io/name": f"{cluster.name}-model-download"}},
        "spec": {
            "restartPolicy": "OnFailure",
            "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "fsGroup": 10001},
            "containers": [container],
            "volumes": [
                {
                    "name": "models",
                    "persistentVolumeClaim": {"claimName": cluster.model_claim},
                }
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
    """Of the planner: scale the pools, keep a lease, find the other processes. Nothing else."""
    cluster = target.cluster
    name = f"{cluster.name}-planner"
    meta = metadata(name, cluster.namespace)
    adapters = [f"{cluster.name}-{worker}" for worker in ("encodeworker", "pdworker")]
    kind = "dynamographdeploymentscalingadapters"
    watching = ["get", "list", "watch"]
    rules = [
        _rule("nvidia.com", [kind], ["get"], adapters),
        _rule("nvidia.com", [f"{kind}/scale"], ["get", "patch"], adapters),
        # A lease that is not there yet has no name that a rule could allow.
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
    """One pod of a kind at a time: each hands over what it holds before it goes."""
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
    """For the Prometheus operator."""
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
