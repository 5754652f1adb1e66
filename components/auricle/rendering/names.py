"""Labels, ports and paths that several manifests name."""

from __future__ import annotations

import re
from typing import Any

Manifest = dict[str, Any]

# Fixed, so that NetworkPolicies can name them.
HTTP_PORT = 8000
SYSTEM_PORT = 9090
REQUEST_PORT, RESPONSE_PORT = 9345, 9346
UCX_PORTS = (20000, 20099)
NATS_PORT, DNS_PORT = 4222, 53

CONFIG_PATH = "/etc/auricle"
KEYS_PATH = "/etc/auricle-keys"
MODELS_PATH = "/models"
WORKERS = ("EncodeWorker", "PdWorker")


def kebab(component: str) -> str:
    """EncodeWorker → encode-worker."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", component).lower()


def labels(name: str, component: str | None = None) -> dict[str, str]:
    """On every pod, so that policies need not know the operator's own labels."""
    found = {"app.kubernetes.io/part-of": name}
    if component is not None:
        found["app.kubernetes.io/component"] = kebab(component)
    return found


def metadata(name: str, namespace: str) -> Manifest:
    """Of an object that belongs to the deployment."""
    return {"name": name, "namespace": namespace}
