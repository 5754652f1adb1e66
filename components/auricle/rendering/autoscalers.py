"""HPA and KEDA manifests, which scale the same adapters in place of the planner."""

from __future__ import annotations

from auricle.load.reports import WorkerKind
from auricle.rendering.names import Manifest, adapter, kebab, metadata
from auricle.rendering.target import Target
from auricle.replicas import PoolLimits

_POOLS: dict[str, WorkerKind] = {"EncodeWorker": "encode_worker", "PdWorker": "pd_worker"}
# The target share of request slots in use: 0.5.
_SLOTS_SHARE = "500m"
_SHRINK_SECONDS = 300
_PROMETHEUS = "http://prometheus-operated.{namespace}:9090"


def horizontal_autoscalers(target: Target) -> list[Manifest]:
    """Return an HPA per pool; it needs a metrics adapter that serves `auricle_*` pod metrics."""
    return [
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": _meta(target, name),
            "spec": {
                "scaleTargetRef": _adapter(target, name),
                "minReplicas": limits.minimum,
                "maxReplicas": limits.maximum,
                "metrics": [
                    {
                        "type": "Pods",
                        "pods": {
                            "metric": {"name": f"auricle_{kind}_slots_share"},
                            "target": {"type": "AverageValue", "averageValue": _SLOTS_SHARE},
                        },
                    }
                ],
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": _SHRINK_SECONDS}},
            },
        }
        for name, kind, limits in _pools(target)
    ]


def keda_objects(target: Target) -> list[Manifest]:
    """Return a ScaledObject per pool; it needs KEDA and a Prometheus that scrapes the pods."""
    address = _PROMETHEUS.format(namespace=target.cluster.monitoring_namespace)
    return [
        {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "ScaledObject",
            "metadata": _meta(target, name),
            "spec": {
                "scaleTargetRef": _adapter(target, name),
                "minReplicaCount": limits.minimum,
                "maxReplicaCount": limits.maximum,
                "cooldownPeriod": _SHRINK_SECONDS,
                "triggers": [
                    {
                        "type": "prometheus",
                        "metadata": {
                            "serverAddress": address,
                            "query": f"sum(auricle_{kind}_slots_share)",
                            "threshold": "0.5",
                        },
                    }
                ],
            },
        }
        for name, kind, limits in _pools(target)
    ]


def _pools(target: Target) -> list[tuple[str, WorkerKind, PoolLimits]]:
    return [(name, kind, target.pools[name]) for name, kind in _POOLS.items()]


def _meta(target: Target, name: str) -> Manifest:
    return metadata(f"{target.cluster.name}-{kebab(name)}", target.cluster.namespace)


def _adapter(target: Target, name: str) -> Manifest:
    return {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeploymentScalingAdapter",
        "name": adapter(target.cluster.name, name),
    }
