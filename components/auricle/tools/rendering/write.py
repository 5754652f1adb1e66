"""Writes the files: a kustomize base, overlays that replace the planner, and components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from auricle.tools.rendering.access import http_route, ingress, service
from auricle.tools.rendering.monitoring import ALERTS, DASHBOARD, alerts, dashboard
from auricle.tools.rendering.pods import deployment
from auricle.tools.rendering.scaling import horizontal_autoscalers, keda_objects, replica_bounds
from auricle.tools.rendering.supporting_manifests import (
    config_map,
    disruption_budgets,
    model_cache,
    network_policies,
    planner_rights,
    pod_monitors,
)
from auricle.tools.rendering.target import Manifest, Target, read_target

_HEADER = "# Rendered by `auricle render {command}`; not to be edited.\n"
Files = dict[str, list[Manifest]]


def render(graph: str, config: Path, out: Path, overrides: Sequence[str] = ()) -> list[Path]:
    """Write all manifests below `out` and return the files' paths.

    `overrides` have the form `--Component.key=value`. Raises SettingsError before a file is
    written; existing files are overwritten.
    """
    target = read_target(graph, config, overrides)
    header = _HEADER.format(command=" ".join([graph, "-f", str(config), *overrides]))
    written = []
    for folder, files in folders(target).items():
        (out / folder).mkdir(parents=True, exist_ok=True)
        for name, manifests in files.items():
            path = out / folder / name
            path.write_text(header + yaml.safe_dump_all(manifests, sort_keys=False, width=100))
            written.append(path)
    return written


def folders(target: Target) -> Mapping[str, Files]:
    """Return all manifests, by folder and file."""
    base: Files = {
        "config.yaml": [config_map(target)],
        "deployment.yaml": [deployment(target)],
        "service.yaml": [service(target)],
        "pdbs.yaml": disruption_budgets(target),
        "networkpolicies.yaml": network_policies(target),
    }
    if models := model_cache(target):
        base["model-cache.yaml"] = models
    if routes := ingress(target):
        base["ingress.yaml"] = routes
    # Kinds of the Prometheus operator and of the Gateway API, which a cluster may lack.
    added = {"overlays/monitoring": _added(_monitoring(target))}
    if route := http_route(target):
        added["overlays/gateway"] = _added({"httproute.yaml": route})
    if "Planner" not in target.components:
        return {"base": _kustomized(base), **added}
    base["planner-rbac.yaml"] = planner_rights(target)
    return {
        "base": _kustomized(base),
        **added,
        "overlays/replica-bounds": _added({"policies.yaml": replica_bounds(target)}),
        "overlays/hpa": _overlay(target, {"hpa.yaml": horizontal_autoscalers(target)}),
        "overlays/keda": _overlay(target, {"keda.yaml": keda_objects(target)}),
    }


def _monitoring(target: Target) -> Files:
    found = {"podmonitors.yaml": pod_monitors(target)}
    if ALERTS.exists() and DASHBOARD.exists():  # not in an installation without the repository
        found |= {"alerts.yaml": [alerts(target)], "dashboard.yaml": [dashboard(target)]}
    return found


def _kustomized(files: Files) -> Files:
    return {**files, "kustomization.yaml": [_kustomization(sorted(files))]}


def _overlay(target: Target, files: Files) -> Files:
    """Return an overlay of the base with 0 planners and the given autoscalers instead."""
    at = target.components.index("Planner")
    patch = [{"op": "replace", "path": f"/spec/components/{at}/replicas", "value": 0}]
    kustomization = _kustomization(["../../base", *sorted(files)]) | {
        "patches": [
            {
                "target": {"kind": "DynamoGraphDeployment", "name": target.cluster.name},
                "patch": yaml.safe_dump(patch, sort_keys=False),
            }
        ]
    }
    return {**files, "kustomization.yaml": [kustomization]}


def _added(files: Files) -> Files:
    """Return a kustomize component, applied with the base or listed in a kustomization."""
    kustomization = _kustomization(sorted(files)) | {
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
    }
    return {**files, "kustomization.yaml": [kustomization]}


def _kustomization(resources: Sequence[str]) -> Manifest:
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(resources),
    }
