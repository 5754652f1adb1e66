"""The pod template of a component: container, probes, resources, volumes."""

from __future__ import annotations

import math
from hashlib import sha256
from typing import Any

from auricle.config.settings import FrontendSettings
from auricle.tools.rendering.target import (
    CONFIG_FILE,
    CONFIG_PATH,
    ENGINES,
    GRPC_PORT,
    HTTP_PORT,
    KEYS_PATH,
    MODELS_PATH,
    REQUEST_PORT,
    RESPONSE_PORT,
    SCALED,
    SCRATCH_PATH,
    SECRET_PATH,
    SYSTEM_PORT,
    UCX_PORTS,
    WORKERS,
    Manifest,
    Target,
    labels,
    manifest,
)

# CPU request and memory (MiB) of a process without its slab; vLLM uses most of a PD worker's.
_RESOURCES = {
    "Frontend": ("2", 2048),
    "Processor": ("1", 2048),
    "EncodeWorker": ("2", 6144),
    "PdWorker": ("4", 12288),
    "AlignEncodeWorker": ("2", 6144),
    "AlignWorker": ("2", 6144),
    "DiarizeWorker": ("1", 2048),
    "TranslateWorker": ("4", 12288),
    "Planner": ("250m", 512),
}
# The annotation of pods that differs with their files.
FILES = "files-sha256"
# MiB of temporary files: of any process, and of an engine, which compiles kernels; and of logs.
SCRATCH_MIB, _KERNELS_MIB, _LOGS_MIB = 2048, 8192, 1024
# Loading weights and compiling may take this long; until then only the start-up probe runs.
_START_SECONDS = 1200
_PROBE_SECONDS = 10
_LIVENESS_PROBE_SECONDS = 5
# The time before SIGTERM in which the pod is removed from services.
_BEFORE_SIGTERM_SECONDS = 5
_AFTER_DRAIN_SECONDS = 20
# Where sessions live: the loss of a node ends as few as possible.
_SPREAD = ("Frontend", "Processor")
_SPREADING: Manifest = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "ScheduleAnyway",
}
_RDMA_TRANSPORTS = "rc_x,rc,dc_x,dc,cuda_copy,cuda_ipc"
_TCP_TRANSPORTS = "tcp,cuda_copy,cuda_ipc"


def pod(target: Target, component: str) -> Manifest:
    """Return the `podTemplate` of a component."""
    cluster, settings = target.cluster, target.settings[component]
    spec: Manifest = {
        "terminationGracePeriodSeconds": int(settings.drain_seconds)
        + _BEFORE_SIGTERM_SECONDS
        + _AFTER_DRAIN_SECONDS,
        "securityContext": pod_security(),
        "containers": [_main(target, component)],
        "volumes": _volumes(target, component),
        **pull_secrets(target),
    }
    if component == "Planner":
        spec["serviceAccountName"] = f"{cluster.name}-planner"
    if component in _SPREAD:
        own = {"labelSelector": {"matchLabels": labels(cluster.name, component)}}
        spec["topologySpreadConstraints"] = [_SPREADING | own]
    if target.on_gpu and component in (*WORKERS, *ENGINES):
        if cluster.gpu_node_labels:
            spec["nodeSelector"] = dict(label.split("=") for label in cluster.gpu_node_labels)
        if cluster.gpu_node_taints:
            spec["tolerations"] = [_toleration(taint) for taint in cluster.gpu_node_taints]
    # Pods read their files when they start: other files need other pods.
    files = sha256("".join(target.files.values()).encode()).hexdigest()
    metadata = {"labels": labels(cluster.name, component), "annotations": {FILES: files}}
    return {"metadata": metadata, "spec": spec}


def pull_secrets(target: Target) -> Manifest:
    """Return the field of a pod with the secrets for its image, if there are any."""
    names = target.cluster.image_pull_secrets
    return {"imagePullSecrets": [{"name": name} for name in names]} if names else {}


def _toleration(taint: str) -> Manifest:
    """Return the toleration of a taint KEY:EFFECT, whatever its value is, or KEY=VALUE:EFFECT."""
    name, _, effect = taint.rpartition(":")
    key, equals, value = name.partition("=")
    if not equals:
        return {"key": key, "operator": "Exists", "effect": effect}
    return {"key": key, "operator": "Equal", "value": value, "effect": effect}


def pod_security() -> Manifest:
    return {
        "runAsNonRoot": True,
        "runAsUser": 10001,
        "runAsGroup": 10001,
        "fsGroup": 10001,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security(*capabilities: str) -> Manifest:
    """Return the `securityContext` of a container with these capabilities and no others."""
    found: Manifest = {"drop": ["ALL"]}
    if capabilities:
        found["add"] = list(capabilities)
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": found,
    }


def _main(target: Target, component: str) -> Manifest:
    return {
        "name": "main",
        "image": target.image,
        "command": ["auricle", "component", component],
        "args": ["-f", f"{CONFIG_PATH}/{CONFIG_FILE}"],
        "env": _environment(target, component),
        "ports": _ports(target, component),
        **_probes(component, target.settings[component].liveness_seconds),
        "lifecycle": {
            "preStop": {"exec": {"command": ["sleep", str(_BEFORE_SIGTERM_SECONDS)]}},
        },
        "resources": _resources(target, component),
        "securityContext": _security(target, component),
        "volumeMounts": _mounts(target, component),
    }


def _environment(target: Target, component: str) -> list[Manifest]:
    values = {
        "HOME": SCRATCH_PATH,  # for caches of compiled kernels
        **({"AURICLE_MODELS": MODELS_PATH} if component != "Planner" else {}),
        "DYN_TCP_RPC_PORT": str(REQUEST_PORT),
        "DYN_TCP_RESPONSE_STREAM_PORT": str(RESPONSE_PORT),
    }
    if component in WORKERS:
        rdma = target.on_gpu and bool(target.cluster.rdma_resource)
        values["UCX_TLS"] = _RDMA_TRANSPORTS if rdma else _TCP_TRANSPORTS
        values["UCX_TCP_PORT_RANGE"] = f"{UCX_PORTS[0]}-{UCX_PORTS[1]}"
    return [{"name": name, "value": value} for name, value in values.items()]


def _ports(target: Target, component: str) -> list[Manifest]:
    if component == "Frontend":
        grpc = [{"name": "grpc", "containerPort": GRPC_PORT}] if target.serves_grpc else []
        return [{"name": "http", "containerPort": HTTP_PORT}, *grpc]
    return [{"name": "system", "containerPort": SYSTEM_PORT}]


def _probes(component: str, liveness_seconds: float) -> Manifest:
    """Return the probes. A process whose loop or parts hang for `liveness_seconds` ends itself; a
    frozen one does not answer, and is ended after as long."""
    port = "http" if component == "Frontend" else "system"

    def get(path: str, failures: int, every: int = _PROBE_SECONDS) -> Manifest:
        return {
            "httpGet": {"path": path, "port": port},
            "periodSeconds": every,
            "timeoutSeconds": 5,
            "failureThreshold": failures,
        }

    return {
        "startupProbe": get("/live", _START_SECONDS // _PROBE_SECONDS),
        "livenessProbe": get(
            "/live", math.ceil(liveness_seconds / _LIVENESS_PROBE_SECONDS), _LIVENESS_PROBE_SECONDS
        ),
        "readinessProbe": get("/health", 2),
    }


def _resources(target: Target, component: str) -> Manifest:
    cpu, mib = _RESOURCES[component]
    if component in WORKERS:
        mib += target.slab_mib(component)
    if component in ENGINES:
        mib += target.kv_mib(component)
    memory = target.resource(component, "memory") or f"{mib}Mi"
    disk_space = disk(_scratch_mib(target, component))
    requests: dict[str, Any] = {
        "cpu": target.resource(component, "cpu") or cpu,
        "memory": memory,
        **disk_space,
    }
    # More memory than requested indicates a leak. CPU has no limit, so that idle cores are used.
    limits: dict[str, Any] = {"memory": memory, **disk_space}
    if component in (*WORKERS, *ENGINES) and target.on_gpu:
        rdma = target.cluster.rdma_resource if component in WORKERS else ""
        for resource in (target.cluster.gpu_resource, rdma):
            if resource:
                requests[resource] = limits[resource] = "1"
    return {"requests": requests, "limits": limits}


def _security(target: Target, component: str) -> Manifest:
    rdma = component in WORKERS and target.on_gpu and target.cluster.rdma_resource
    # RDMA locks the memory that is registered.
    return container_security("IPC_LOCK") if rdma else container_security()


def scratch(mib: int) -> Manifest:
    """Return the volume of temporary files: the only one that a container may write to.

    Kubernetes evicts a pod that writes more than `mib` to it, instead of the node's other pods.
    """
    return {"name": "scratch", "emptyDir": {"sizeLimit": f"{mib}Mi"}}


def _scratch_mib(target: Target, component: str) -> int:
    """Return the MiB that a process may write: compiled kernels, and a frontend's uploads."""
    settings = target.settings[component]
    if isinstance(settings, FrontendSettings):
        # An upload that gives way to another one is deleted a moment later.
        return SCRATCH_MIB + math.ceil(settings.max_stored_upload_bytes / (1 << 20))
    return _KERNELS_MIB if component in ENGINES else SCRATCH_MIB


def disk(scratch_mib: int) -> Manifest:
    """Return the request and limit of a container's disk space: its scratch volume, and logs."""
    return {"ephemeral-storage": f"{scratch_mib + _LOGS_MIB}Mi"}


def _volumes(target: Target, component: str) -> list[Manifest]:
    cluster = target.cluster
    found: list[Manifest] = [
        {"name": "config", "configMap": {"name": f"{cluster.name}-config"}},
        {
            "name": "secret",
            # The processes refuse a secret that anybody may read.
            "secret": {"secretName": cluster.internal_secret, "defaultMode": 0o440},
        },
        scratch(_scratch_mib(target, component)),
    ]
    if component != "Planner" and target.uses_claim:
        claim = {"claimName": cluster.model_claim, "readOnly": True}
        found.append({"name": "models", "persistentVolumeClaim": claim})
    if component == "Frontend" and cluster.api_keys_secret:
        found.append({"name": "keys", "secret": {"secretName": cluster.api_keys_secret}})
    return found


def _mounts(target: Target, component: str) -> list[Manifest]:
    found: list[Manifest] = [
        {"name": "config", "mountPath": CONFIG_PATH, "readOnly": True},
        # The whole volume: Kubernetes does not update a single file of it.
        {"name": "secret", "mountPath": SECRET_PATH, "readOnly": True},
        {"name": "scratch", "mountPath": SCRATCH_PATH},
    ]
    if component != "Planner" and target.uses_claim:
        found.append({"name": "models", "mountPath": MODELS_PATH, "readOnly": True})
    if component == "Frontend" and target.cluster.api_keys_secret:
        found.append({"name": "keys", "mountPath": KEYS_PATH, "readOnly": True})
    return found


# The DynamoGraphDeployment manifest.

# Dynamo's component types. It has none for a processor or an encoder. The encode worker is
# `worker` and the PD worker `decode`, because two components of one type are not distinguished;
# so the components of the align pool have none.
_TYPES = {
    "Frontend": "frontend",
    "EncodeWorker": "worker",
    "PdWorker": "decode",
    "Planner": "planner",
}
# MiB of /dev/shm for vLLM and NCCL, in addition to the slab.
_SHARED_MIB = 1024


def deployment(target: Target) -> Manifest:
    """Return the deployment, with one entry per component, callees before callers."""
    spec = {
        "backendFramework": "vllm",
        "components": [_component(target, name) for name in target.components],
    }
    return manifest(target.cluster, "DynamoGraphDeployment", "", spec=spec)


def _component(target: Target, name: str) -> Manifest:
    found: Manifest = {
        "name": name,
        "replicas": target.settings[name].replicas,
        "runtimeVersionOverride": target.cluster.dynamo_version,
        "podTemplate": pod(target, name),
    }
    if name in _TYPES:
        found["type"] = _TYPES[name]
    if name in SCALED:
        found["scalingAdapter"] = {}
    if name in WORKERS or name in ENGINES:
        slab = target.slab_mib(name) if name in WORKERS else 0
        found["sharedMemorySize"] = f"{slab + _SHARED_MIB}Mi"
    return found
