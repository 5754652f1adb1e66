"""Labels, ports, paths and names used in several manifests."""

from __future__ import annotations

import re
from typing import Any

Manifest = dict[str, Any]

# Fixed, because NetworkPolicies list them.
HTTP_PORT = 8000
SYSTEM_PORT = 9090
REQUEST_PORT, RESPONSE_PORT = 9345, 9346
UCX_PORTS = (20000, 20099)
NATS_PORT, DNS_PORT = 4222, 53

CONFIG_PATH = "/etc/auricle"
KEYS_PATH = "/etc/auricle-keys"
SECRET_PATH = "/etc/auricle-secret"
SCRATCH_PATH = "/tmp"
MODELS_PATH = "/models"
# Each reads from the one before it; an aligner that is the model from `EncodeWorker`.
SLAB_POOLS = (("EncodeWorker", "PdWorker"), ("AlignEncodeWorker", "AlignWorker"))
WORKERS = tuple(worker for pool in SLAB_POOLS for worker in pool)  # those with a slab
ENGINES = ("PdWorker", "TranslateWorker")  # those with a KV cache
SCALED = (*WORKERS, "DiarizeWorker", "TranslateWorker")


def kebab(component: str) -> str:
    """Return the name in kebab case: EncodeWorker becomes encode-worker."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", component).lower()


def adapter(name: str, component: str) -> str:
    """Return the name of the scaling adapter that the operator creates for a component.

    `name` is the deployment's name.
    """
    return f"{name}-{component.lower()}"


def labels(name: str, component: str | None = None) -> dict[str, str]:
    """Return the labels of a deployment's pods, or of one component's.

    Policies select by these instead of the operator's own labels.
    """
    found = {"app.kubernetes.io/part-of": name}
    if component is not None:
        found["app.kubernetes.io/component"] = kebab(component)
    return found


def metadata(name: str, namespace: str) -> Manifest:
    """Return the metadata of an object of the deployment."""
    return {"name": name, "namespace": namespace}
