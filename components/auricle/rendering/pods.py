"""A component's pod: container, probes, resources, volumes."""

from __future__ import annotations

from typing import Any

from auricle.rendering.names import (
    CONFIG_PATH,
    HTTP_PORT,
    KEYS_PATH,
    MODELS_PATH,
    REQUEST_PORT,
    RESPONSE_PORT,
    SYSTEM_PORT,
    UCX_PORTS,
    WORKERS,
    Manifest,
    labels,
)
from auricle.rendering.target import CONFIG_FILE, Target

# What a process takes beside its slab: (CPU request, memory MiB). A PD worker's is vLLM's.
_BESIDE = {
    "Frontend": ("2", 2048),
    "Processor": ("1", 2048),
    "EncodeWorker": ("2", 6144),
    "PdWorker": ("4", 12288),
    "Planner": ("250m", 512),
}
# Loading weights and compiling may take this long; until then nothing else is asked.
_START_SECONDS = 1200
_PROBE_SECONDS = 10
# Endpoints are taken out of services while this passes; only then SIGTERM comes.
_BEFORE_SIGTERM_SECONDS = 5
_AFTER_DRAIN_SECONDS = 20
_RDMA_TRANSPORTS = "rc_x,rc,dc_x,dc,cuda_copy,cuda_ipc"
_TCP_TRANSPORTS = "tcp,cuda_copy,cuda_ipc"


def pod(target: Target, component: str) -> Manifest:
    """The `podTemplate` of a component."""
    cluster, settings = target.cluster, target.settings[component]
    spec: Manifest = {
        "terminationGracePeriodSeconds": int(settings.drain_seconds)
        + _BEFORE_SIGTERM_SECONDS
        + _AFTER_DRAIN_SECONDS,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "fsGroup": 10001},
        "containers": [_main(target, component)],
        "volumes": _volumes(target, component),
    }
    if component == "Planner":
        spec["serviceAccountName"] = f"{cluster.name}-planner"
    return {"metadata": {"labels": labels(cluster.name, component)}, "spec": spec}


def _main(target: Target, component: str) -> Manifest:
    return {
        "name": "main",
        "image": target.cluster.image,
        "command": ["auricle", "component", component],
        "args": ["-f", f"{CONFIG_PATH}/{CONFIG_FILE}"],
        "env": _environment(target, component),
        "ports": _ports(component),
        **_probes(component),
        "lifecycle": {
            "preStop": {"exec": {"command": ["sleep", str(_BEFORE_SIGTERM_SECONDS)]}},
        },
        "resources": _resources(target, component),
        "securityContext": _security(target, component),
        "volumeMounts": _mounts(target, component),
    }


def _environment(target: Target, component: str) -> list[Manifest]:
    values = {
        "DYN_TCP_RPC_PORT": str(REQUEST_PORT),
        "DYN_TCP_RESPONSE_STREAM_PORT": str(RESPONSE_PORT),
    }
    if component in WORKERS:
        rdma = target.on_gpu and bool(target.cluster.rdma_resource)
        values["UCX_TLS"] = _RDMA_TRANSPORTS if rdma else _TCP_TRANSPORTS
        values["UCX_TCP_PORT_RANGE"] = f"{UCX_PORTS[0]}-{UCX_PORTS[1]}"
    return [{"name": name, "value": value} for name, value in values.items()]


def _ports(component: str) -> list[Manifest]:
    if component == "Frontend":
        return [{"name": "http", "containerPort": HTTP_PORT}]
    return [{"name": "system", "containerPort": SYSTEM_PORT}]


def _probes(component: str) -> Manifest:
    port = "http" if component == "Frontend" else "system"

    def get(path: str, failures: int) -> Manifest:
        return {
            "httpGet": {"path": path, "port": port},
            "periodSeconds": _PROBE_SECONDS,
            "timeoutSeconds": 5,
            "failureThreshold": failures,
        }

    return {
        "startupProbe": get("/live", _START_SECONDS // _PROBE_SECONDS),
        "livenessProbe": get("/live", 3),
        "readinessProbe": get("/health", 2),
    }


def _resources(target: Target, component: str) -> Manifest:
    cpu, beside = _BESIDE[component]
    memory = beside
    if component in WORKERS:
        memory += target.slab_mib(component)
    if component == "PdWorker":
        memory += target.kv_mib()
    requests: dict[str, Any] = {"cpu": cpu, "memory": f"{memory}Mi"}
    # More memory than this is a leak; CPU is taken where there is some.
    limits: dict[str, Any] = {"memory": f"{memory}Mi"}
    if component in WORKERS and target.on_gpu:
        for resource in (target.cluster.gpu_resource, target.cluster.rdma_resource):
            if resource:
                requests[resource] = limits[resource] = "1"
    return {"requests": requests, "limits": limits}


def _security(target: Target, component: str) -> Manifest:
    found: Manifest = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    if component in WORKERS and target.on_gpu and target.cluster.rdma_resource:
        # Registered memory is locked memory.
        found["capabilities"]["add"] = ["IPC_LOCK", "SYS_RESOURCE"]
    return found


def _volumes(target: Target, component: str) -> list[Manifest]:
    cluster = target.cluster
    found: list[Manifest] = [
        {"name": "config", "configMap": {"name": f"{cluster.name}-config"}},
    ]
    if component != "Planner":
        claim = {"claimName": cluster.model_claim, "readOnly": True}
        found.append({"name": "models", "persistentVolumeClaim": claim})
    if component == "Frontend" and cluster.api_keys_secret:
        found.append({"name": "keys", "secret": {"secretName": cluster.api_keys_secret}})
    return found


def _mounts(target: Target, component: str) -> list[Manifest]:
    found: list[Manifest] = [{"name": "config", "mountPath": CONFIG_PATH, "readOnly": True}]
    if component != "Planner":
        found.append({"name": "models", "mountPath": MODELS_PATH, "readOnly": True})
    if component == "Frontend" and target.cluster.api_keys_secret:
        found.append({"name": "keys", "mountPath": KEYS_PATH, "readOnly": True})
    return found
