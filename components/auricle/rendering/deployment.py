"""The DynamoGraphDeployment."""

from __future__ import annotations

from auricle.rendering.names import WORKERS, Manifest, metadata
from auricle.rendering.pods import pod
from auricle.rendering.target import Target

# Dynamo's roles. It has none for a processor, nor for an encoder: that is `worker`, so that
# vLLM's is `decode` (two of one role would be told apart by nothing).
_TYPES = {
    "Frontend": "frontend",
    "EncodeWorker": "worker",
    "PdWorker": "decode",
    "Planner": "planner",
}
# Of /dev/shm, beside a slab: vLLM's and NCCL's own.
_SHARED_MIB = 1024


def deployment(target: Target) -> Manifest:
    """One component each, callees before callers."""
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
    if name in WORKERS:
        found["scalingAdapter"] = {}
        found["sharedMemorySize"] = f"{target.slab_mib(name) + _SHARED_MIB}Mi"
    return found
