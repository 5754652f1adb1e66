"""NetworkPolicies: they allow clients to reach frontends, and pods of the deployment each other.

All other ingress and egress is denied, except to DNS, NATS, the API server and for probes.
"""

from __future__ import annotations

from auricle.rendering.names import (
    DNS_PORT,
    HTTP_PORT,
    NATS_PORT,
    REQUEST_PORT,
    RESPONSE_PORT,
    SLAB_POOLS,
    SYSTEM_PORT,
    UCX_PORTS,
    Manifest,
    kebab,
    labels,
    metadata,
)
from auricle.rendering.target import Target

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
            ingress=[{"ports": _tcp(HTTP_PORT)}],
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
    cluster = target.cluster
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(f"{cluster.name}-{what}", cluster.namespace),
        "spec": spec,
    }


def _tcp(*ports: int) -> list[Manifest]:
    return [{"protocol": "TCP", "port": port} for port in ports]


def _namespace(name: str) -> Manifest:
    return {"namespaceSelector": {"matchLabels": {_NAMESPACE_LABEL: name}}}
