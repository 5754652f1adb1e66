"""The DynamoGraphDeployment manifest."""

from __future__ import annotations

from auricle.rendering.names import ENGINES, SCALED, WORKERS, Manifest, metadata
from auricle.rendering.pods import pod
from auricle.rendering.target import Target

# Dynamo's component types. It has none for a processor or an encoder. The encode worker is
# `worker` and the PD worker `decode`, because two components of one type are not distinguished;
# so those of the align pool have none.
_TYPES = {
    "Frontend": "frontend",
    "EncodeWorker": "worker",
    "PdWorker": "decode",
    "Planner": "planner",
}
# MiB of /dev/shm beside the slab, for vLLM and NCCL.
_SHARED_MIB = 1024


def deployment(target: Target) -> Manifest:
    """Return the deployment, with one entry per component, callees before callers."""
    cluster = target.cluster
    return {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": metadata(cluster.name, cluster.namespace),
        "spec": {
            "backendFramework": "vllm",
            "components": [_component(target, name) for name in target.components],
        },
    }


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
