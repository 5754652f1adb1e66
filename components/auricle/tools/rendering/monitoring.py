"""The alert rules and the dashboard of the repository, as objects of a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from auricle.tools.rendering.target import Manifest, Target, manifest

ALERTS = Path("deploy/prometheus/alerts.yml")
DASHBOARD = Path("deploy/grafana/auricle.json")
_JOB = 'job="auricle"'


def alerts(target: Target) -> Manifest:
    """Return the PrometheusRule."""
    rules = ALERTS.read_text().replace(_JOB, f'job="{target.cluster.name}"')
    return manifest(target.cluster, "PrometheusRule", "", spec=yaml.safe_load(rules))


def dashboard(target: Target) -> Manifest:
    """Return a ConfigMap that Grafana's sidecar loads."""
    model = json.dumps(json.loads(DASHBOARD.read_text()), separators=(",", ":"))
    found = manifest(target.cluster, "ConfigMap", "-dashboard", data={DASHBOARD.name: model})
    found["metadata"]["labels"] = {"grafana_dashboard": "1"}
    return found
