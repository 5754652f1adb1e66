"""Files: a kustomize base, and overlays that take the planner's place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from auricle.rendering.around import (
    config_map,
    disruption_budgets,
    model_cache,
    planner_rights,
    pod_monitors,
)
from auricle.rendering.autoscalers import horizontal_autoscalers, keda_objects
from auricle.rendering.deployment import deployment
from auricle.rendering.names import Manifest
from auricle.rendering.policies import network_policies
from auricle.rendering.target import Target, read_target

_HEADER = "# Rendered by `auricle render {graph} -f {config}`; not to be edited.\n"
Files = dict[str, list[Manifest]]


def render(graph: str, config: Path, out: Path) -> list[Path]:
    """Write all manifests below `out`; raises SettingsError before anything is written."""
    target = read_target(graph, config)
    header = _HEADER.format(graph=graph, config=config)
    written = []
    for folder, files in _folders(target).items():
        (out / folder).mkdir(parents=True, exist_ok=True)
        for name, manifests in files.items():
            path = out / folder / name
            path.write_text(header + yaml.safe_dump_all(manifests, sort_keys=False, width=100))
            written.append(path)
    return written


def _folders(target: Target) -> Mapping[str, Files]:
    base: Files = {
        "config.yaml": [config_map(target)],
        "deployment.yaml": [deployment(target)],
        "model-cache.yaml": model_cache(target),
        "pdbs.yaml": disruption_budgets(target),
        "podmonitors.yaml": pod_monitors(target),
        "networkpolicies.yaml": network_policies(target),
    }
    if "Planner" not in target.components:
        return {"base": _kustomized(base)}
    base["planner-rbac.yaml"] = planner_rights(target)
    return {
        "base": _kustomized(base),
        "overlays/hpa": _overlay(target, {"hpa.yaml": horizontal_autoscalers(target)}),
        "overlays/keda": _overlay(target, {"keda.yaml": keda_objects(target)}),
    }


def _kustomized(files: Files) -> Files:
    return {**files, "kustomization.yaml": [_kustomization(sorted(files))]}


def _overlay(target: Target, files: Files) -> Files:
    """The base without a planner that acts, and something else that does."""
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


def _kustomization(resources: Sequence[str]) -> Manifest:
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(resources),
    }
