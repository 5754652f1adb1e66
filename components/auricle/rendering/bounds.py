"""Admission policies that bound replicas, whether a person, an HPA or the planner sets them."""

from __future__ import annotations

from auricle.rendering.names import Manifest, adapter
from auricle.rendering.target import Target
from auricle.replicas import MAX_PLANNERS, MAX_REPLICAS

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
