"""Instead of the planner: an HPA, or KEDA, on the same scaling adapters."""

from __future__ import annotations

from auricle.load_reports import WorkerKind
from auricle.rendering.names import Manifest, kebab, metadata
from auricle.rendering.target import Target
from auricle.settings import PlannerSettings, PoolLimits

_POOLS: dict[str, WorkerKind] = {"EncodeWorker": "encode_worker", "PdWorker": "pd_worker"}
# Of the slots for requests, and of the time to a reply at which a chunk is still in time.
_SLOTS_SHARE = "500m"
_SHRINK_SECONDS = 300
_PROMETHEUS = "http://prometheus-operated.{namespace}:9090"


def horizontal_autoscalers(target: Target) -> list[Manifest]:
    """Needs a metrics adapter that serves `auricle_*` as pod metrics."""
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
    """Needs KEDA and a Prometheus that asks the pods."""
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
    planner = target.settings.get("Planner")
    assert isinstance(planner, PlannerSettings)
    return [
        (name, kind, planner.encode if kind == "encode_worker" else planner.pd)
        for name, kind in _POOLS.items()
    ]


def _meta(target: Target, name: str) -> Manifest:
    return metadata(f"{target.cluster.name}-{kebab(name)}", target.cluster.namespace)


def _adapter(target: Target, name: str) -> Manifest:
    return {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeploymentScalingAdapter",
        "name": f"{target.cluster.name}-{name.lower()}",
    }
