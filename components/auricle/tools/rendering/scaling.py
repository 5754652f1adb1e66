"""HPA and KEDA manifests, which scale the same adapters in place of the planner."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from auricle.config.common import MAX_PLANNERS, MAX_REPLICAS, PoolLimits
from auricle.load.pools import POOLS, SizedPool
from auricle.tools.rendering.target import Manifest, Target, adapter, kebab, manifest

# The target share of request slots in use: 0.5.
_SLOTS_SHARE = "500m"
_SHRINK_SECONDS = 300
_PROMETHEUS = "http://prometheus-operated.{namespace}:9090"


def horizontal_autoscalers(target: Target) -> list[Manifest]:
    """Return an HPA per pool; it needs a metrics adapter that serves `auricle_*` pod metrics."""

    def spec(pool: SizedPool, limits: PoolLimits) -> Manifest:
        metric = {
            "metric": {"name": _slots(pool)},
            "target": {"type": "AverageValue", "averageValue": _SLOTS_SHARE},
        }
        return {
            # 0 is possible with an alpha feature of Kubernetes only.
            "minReplicas": max(limits.minimum, 1),
            "maxReplicas": limits.maximum,
            "metrics": [{"type": "Pods", "pods": metric}],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": _SHRINK_SECONDS}},
        }

    return _per_pool(target, "HorizontalPodAutoscaler", spec)


def keda_objects(target: Target) -> list[Manifest]:
    """Return a ScaledObject per pool; it needs KEDA and a Prometheus that scrapes the pods."""
    address = _PROMETHEUS.format(namespace=target.cluster.monitoring_namespace)

    def spec(pool: SizedPool, limits: PoolLimits) -> Manifest:
        return {
            "minReplicaCount": limits.minimum,
            "maxReplicaCount": limits.maximum,
            "cooldownPeriod": _SHRINK_SECONDS,
            "triggers": list(_triggers(pool, address)),
        }

    return _per_pool(target, "ScaledObject", spec)


def _per_pool(
    target: Target, kind: str, spec: Callable[[SizedPool, PoolLimits], Manifest]
) -> list[Manifest]:
    """Return a manifest for each pool's scaling adapter."""
    found = []
    for pool in POOLS.values():
        if (limits := target.pools.get(pool.component)) is not None:
            scaled = {
                "apiVersion": "nvidia.com/v1beta1",
                "kind": "DynamoGraphDeploymentScalingAdapter",
                "name": adapter(target.cluster.name, pool.component),
            }
            whole = {"scaleTargetRef": scaled, **spec(pool, limits)}
            found.append(manifest(target.cluster, kind, f"-{kebab(pool.component)}", spec=whole))
    return found


def _triggers(pool: SizedPool, address: str) -> Iterator[Manifest]:
    shared = any(other.metrics == pool.metrics_prefix for other in POOLS.values())
    of = f'{{pool="{pool.kind}"}}' if shared else ""
    yield _trigger(address, f"sum({_slots(pool)}{of})", "0.5")
    if pool.annotation:
        # A request starts the first worker, and no more.
        asking = f'sum(auricle_processor_sessions_asking{{asked="{pool.annotation}"}})'
        yield _trigger(address, f"clamp_max({asking}, 1)", "1")


def _trigger(address: str, query: str, threshold: str) -> Manifest:
    return {
        "type": "prometheus",
        "metadata": {"serverAddress": address, "query": query, "threshold": threshold},
    }


def _slots(pool: SizedPool) -> str:
    return f"auricle_{pool.metrics_prefix}_slots_share"


# Admission policies that bound replicas, whether a person, an HPA or the planner sets them.

_API = "admissionregistration.k8s.io/v1"
_ADAPTERS = "dynamographdeploymentscalingadapters"
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"


def replica_bounds(target: Target) -> list[Manifest]:
    """Return the admission policies and their bindings.

    They are cluster-scoped and therefore not part of the base.
    """
    name = target.cluster.name
    names = [adapter(name, worker) for worker in target.pools]
    # The operator copies replicas from an adapter to the deployment: both have the same bounds.
    return [
        *_policy(target, "adapters", [_ADAPTERS, f"{_ADAPTERS}/scale"], names, _adapters(target)),
        *_policy(target, "components", ["dynamographdeployments"], [name], _components(target)),
    ]


def _adapters(target: Target) -> list[Manifest]:
    """Return the rules for adapters and their scale, which omits `replicas` if it is 0."""
    return [
        {
            "expression": f"object.metadata.name != '{adapter(target.cluster.name, worker)}' || "
            "!has(object.spec) || !has(object.spec.replicas) || "
            f"object.spec.replicas <= {limits.maximum}",
            "message": f"{worker} may have at most {limits.maximum} replicas, "
            "the planner's maximum for this pool",
        }
        for worker, limits in target.pools.items()
    ]


def _components(target: Target) -> list[Manifest]:
    most = {worker: limits.maximum for worker, limits in target.pools.items()}
    most["Planner"] = MAX_PLANNERS
    return [
        {
            "expression": f"object.spec.components.all(c, c.name != '{name}' || "
            f"!has(c.replicas) || c.replicas <= {most.get(name, MAX_REPLICAS)})",
            "message": f"{name} may have at most {most.get(name, MAX_REPLICAS)} replicas",
        }
        for name in target.components
    ]


def _policy(
    target: Target,
    what: str,
    resources: list[str],
    names: list[str],
    validations: list[Manifest],
) -> list[Manifest]:
    cluster = target.cluster
    # Cluster-scoped names must be unique in the cluster, so they include the namespace.
    name = f"{cluster.namespace}-{cluster.name}-{what}"
    rule = {
        "apiGroups": ["nvidia.com"],
        "apiVersions": ["v1beta1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": resources,
        "resourceNames": names,
    }
    own = {"matchLabels": {_NAMESPACE_LABEL: cluster.namespace}}
    return [
        {
            "apiVersion": _API,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [rule], "namespaceSelector": own},
                "validations": validations,
            },
        },
        {
            "apiVersion": _API,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]
