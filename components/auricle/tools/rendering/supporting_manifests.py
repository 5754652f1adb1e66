"""The supporting manifests of a deployment: configuration, RBAC, storage, budgets, monitors."""

from __future__ import annotations

from collections.abc import Callable

from auricle.tools.rendering.pods import (
    SCRATCH_MIB,
    container_security,
    disk,
    pod_security,
    pull_secrets,
    scratch,
)
from auricle.tools.rendering.target import (
    DNS_PORT,
    GRPC_PORT,
    HTTP_PORT,
    MODELS_PATH,
    NATS_PORT,
    REQUEST_PORT,
    RESPONSE_PORT,
    SCRATCH_PATH,
    SLAB_POOLS,
    SYSTEM_PORT,
    UCX_PORTS,
    Manifest,
    Target,
    adapter,
    kebab,
    labels,
    manifest,
    named_models,
)


def config_map(target: Target) -> Manifest:
    """Return the ConfigMap with the files of pods."""
    return manifest(target.cluster, "ConfigMap", "-config", data=dict(target.files))


def model_cache(target: Target) -> list[Manifest]:
    """Return a volume claim for checkpoints and, for those with a name, a job that pulls them.

    No claim if it exists already, and nothing if the image has the only model.
    """
    cluster = target.cluster
    if not target.uses_claim:
        return []
    spec: Manifest = {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": cluster.model_claim_size}},
    }
    if cluster.storage_class:
        spec["storageClassName"] = cluster.storage_class
    claim = manifest(cluster, "PersistentVolumeClaim", "", spec=spec)
    claim["metadata"]["name"] = cluster.model_claim
    names = named_models(target.settings["Frontend"])
    claims = [] if cluster.model_claim_exists else [claim]
    return [*claims, _download(target, names)] if names else claims


_JOB_SECONDS = 600


def _download(target: Target, names: list[str]) -> Manifest:
    cluster = target.cluster
    token = {"name": cluster.hub_token_secret, "key": "token", "optional": True}
    container: Manifest = {
        "name": "download",
        "image": target.image,
        "command": ["auricle", "models", "pull", *names],
        "env": [
            {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": token}},
            {"name": "AURICLE_MODELS", "value": MODELS_PATH},
            {"name": "HOME", "value": SCRATCH_PATH},
        ],
        "resources": {"requests": disk(SCRATCH_MIB), "limits": disk(SCRATCH_MIB)},
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
            **pull_secrets(target),
            "volumes": [
                {
                    "name": "models",
                    "persistentVolumeClaim": {"claimName": cluster.model_claim},
                },
                scratch(SCRATCH_MIB),
            ],
        },
    }
    # A job cannot be changed: one with another image or model can take its place once it is gone.
    spec = {"backoffLimit": 4, "ttlSecondsAfterFinished": _JOB_SECONDS, "template": template}
    return manifest(cluster, "Job", "-model-download", spec=spec)


def planner_rights(target: Target) -> list[Manifest]:
    """Return the planner's ServiceAccount, Role and RoleBinding.

    It may scale the pools, hold its lease and use Dynamo's discovery, and nothing else.
    """
    cluster = target.cluster
    name = f"{cluster.name}-planner"
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
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    account = {"kind": "ServiceAccount", "name": name, "namespace": cluster.namespace}
    return [
        manifest(cluster, "ServiceAccount", "-planner"),
        manifest(cluster, "Role", "-planner", rules=rules),
        manifest(cluster, "RoleBinding", "-planner", roleRef=role, subjects=[account]),
    ]


def _rule(
    group: str, resources: list[str], verbs: list[str], names: list[str] | None = None
) -> Manifest:
    found: Manifest = {"apiGroups": [group], "resources": resources, "verbs": verbs}
    if names is not None:
        found["resourceNames"] = names
    return found


def _per_component(
    target: Target, kind: str, spec: Callable[[str], Manifest], *, selector_first: bool = False
) -> list[Manifest]:
    """Return a manifest for the pods of each component."""
    found = []
    for name in target.components:
        selector = {"selector": {"matchLabels": labels(target.cluster.name, name)}}
        whole = {**selector, **spec(name)} if selector_first else {**spec(name), **selector}
        found.append(manifest(target.cluster, kind, f"-{kebab(name)}", spec=whole))
    return found


def disruption_budgets(target: Target) -> list[Manifest]:
    """Return a budget per component: one pod at a time is evicted, and it drains first."""
    return _per_component(target, "PodDisruptionBudget", lambda _name: {"maxUnavailable": 1})


def pod_monitors(target: Target) -> list[Manifest]:
    """Return a PodMonitor per component; the Prometheus operator provides this kind."""

    def endpoints(name: str) -> Manifest:
        port = "http" if name == "Frontend" else "system"
        endpoint = {"port": port, "path": "/metrics"}
        # The job is the deployment's name, as in the alert rules and the dashboard.
        return {"jobLabel": "app.kubernetes.io/part-of", "podMetricsEndpoints": [endpoint]}

    return _per_component(target, "PodMonitor", endpoints, selector_first=True)


# NetworkPolicies: they allow clients to reach frontends, and pods of the deployment each other.
#
# All other ingress and egress is denied, except to DNS, NATS, the API server and for probes.

_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_API_PORTS = (443, 6443)


def network_policies(target: Target) -> list[Manifest]:
    """Return the policies. RDMA needs no rules, as it does not use the pod network."""
    cluster = target.cluster
    name = cluster.name
    ours = {"podSelector": {"matchLabels": labels(name)}}
    platform = _namespace(cluster.platform_namespace)
    rules = [
        _policy(target, "pods", labels(name), ingress=[], egress=_everybody(ours, platform)),
        _policy(
            target,
            "request-plane",
            labels(name),
            ingress=[
                {"from": [ours], "ports": _tcp(REQUEST_PORT, RESPONSE_PORT)},
                {
                    # Probes of the operator, and Prometheus.
                    "from": [platform, _namespace(cluster.monitoring_namespace)],
                    "ports": _tcp(SYSTEM_PORT, HTTP_PORT),
                },
            ],
        ),
        _policy(
            target,
            "clients",
            labels(name, "Frontend"),
            ingress=[{"ports": _tcp(HTTP_PORT, *([GRPC_PORT] if target.serves_grpc else []))}],
        ),
    ]
    first, last = UCX_PORTS
    embeddings = [{"protocol": "TCP", "port": first, "endPort": last}]
    for there in _exchanging(target):
        workers = [{"podSelector": {"matchLabels": labels(name, w)}} for w in there]
        rules += [
            _policy(
                target,
                f"embeddings-{kebab(worker)}",
                labels(name, worker),
                ingress=[{"from": workers, "ports": embeddings}],
                egress=[{"to": workers, "ports": embeddings}],
            )
            for worker in there
        ]
    return rules


def _exchanging(target: Target) -> list[list[str]]:
    """Return the workers that read embeddings of each other, in groups."""
    groups = [[worker for worker in pool if worker in target.components] for pool in SLAB_POOLS]
    if "AlignEncodeWorker" in target.components:
        return groups
    return [[worker for group in groups for worker in group]]


def _everybody(ours: Manifest, platform: Manifest) -> list[Manifest]:
    """Return the egress rules of every pod."""
    dns = [{"protocol": p, "port": DNS_PORT} for p in ("UDP", "TCP")]
    return [
        {"to": [ours], "ports": _tcp(REQUEST_PORT, RESPONSE_PORT)},
        {"to": [platform], "ports": _tcp(NATS_PORT)},
        {"to": [{"namespaceSelector": {}}], "ports": dns},
        # Discovery, scaling and the lease; the API server has no selector.
        {"ports": _tcp(*_API_PORTS)},
    ]


def _policy(
    target: Target,
    what: str,
    selects: dict[str, str],
    *,
    ingress: list[Manifest] | None = None,
    egress: list[Manifest] | None = None,
) -> Manifest:
    spec: Manifest = {"podSelector": {"matchLabels": selects}, "policyTypes": []}
    for kind, rules in (("Ingress", ingress), ("Egress", egress)):
        if rules is not None:
            spec["policyTypes"].append(kind)
            spec[kind.lower()] = rules
    return manifest(target.cluster, "NetworkPolicy", f"-{what}", spec=spec)


def _tcp(*ports: int) -> list[Manifest]:
    return [{"protocol": "TCP", "port": port} for port in ports]


def _namespace(name: str) -> Manifest:
    return {"namespaceSelector": {"matchLabels": {_NAMESPACE_LABEL: name}}}
