"""The settings of `auricle render`; an error names the unknown key or invalid value."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

_LABEL = r"^[A-Za-z0-9./_-]+=[A-Za-z0-9._-]*$"
_RESOURCE = r"^[A-Za-z]+:(cpu=[0-9]+m?|memory=[0-9]+[MG]i)$"
_HOST = r"^(\*\.)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
_GATEWAY = r"^([-a-z0-9]+/[-a-z0-9]+)?$"
_ANNOTATION = r"^[A-Za-z0-9./_-]+=.*$"
_TAINT = r"^[A-Za-z0-9./_-]+(=[A-Za-z0-9._-]*)?:(NoSchedule|PreferNoSchedule|NoExecute)$"


class KubernetesSettings(BaseModel):
    """Section `Kubernetes`: the cluster for which `auricle render` writes manifests."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(
        "auricle",
        pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$",
        description="name of the deployment, a prefix of its objects' names",
    )
    namespace: str = Field(
        "auricle",
        pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$",
        description="namespace of the deployment",
    )
    image: str | None = Field(
        None,
        description="image of all pods, built with deploy/docker/Dockerfile; by default "
        "auricle:gpu, or auricle:cpu if EncodeWorker.device is cpu",
    )
    image_pull_secrets: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        (), description="secrets with which the nodes pull the image; of all pods"
    )
    dynamo_version: str = Field("1.6.1", description="version of Dynamo in the image")
    platform_namespace: str = Field(
        "dynamo-system", description="namespace of the Dynamo platform and NATS"
    )
    monitoring_namespace: str = Field(
        "monitoring", description="namespace from which Prometheus scrapes"
    )
    autoscaling: Literal["planner", "none"] | None = Field(
        None,
        description="autoscaler of the pools; overlays use an HPA or KEDA instead. By default the "
        "planner, if there is a profile",
    )
    model_claim: str = Field(
        "auricle-models",
        description="volume claim of the checkpoints, mounted at /models; a job pulls checkpoints "
        "that are set by name",
    )
    model_claim_exists: bool = Field(
        False, description="the claim exists already: the manifests neither create nor delete it"
    )
    model_claim_size: str = Field("20Gi", description="size of that claim")
    storage_class: str = Field(
        "", description="class that supports ReadWriteMany; empty: the default"
    )
    hub_token_secret: str = Field(
        "auricle-hub-token",
        description="secret with key `token`, for Hugging Face; it need not exist",
    )
    api_keys_secret: str = Field(
        "", description="secret with key `keys.yaml` (see `auricle key`); empty: no authentication"
    )
    internal_secret: str = Field(
        "auricle-internal",
        min_length=1,
        description="secret with key `secrets`, for Common.secret_file: one per line",
    )
    hidden_size: int = Field(
        1024, ge=1, description="width of an embedding; used if the checkpoint cannot be read here"
    )
    window_embeddings: int = Field(
        104, ge=1, description="embeddings per window; used if the checkpoint cannot be read here"
    )
    gpu_resource: str = Field("nvidia.com/gpu", description="resource name of GPUs")
    rdma_resource: str = Field(
        "rdma/ib", description="resource name of RDMA devices; empty: TCP between nodes"
    )
    gpu_node_labels: tuple[Annotated[str, Field(pattern=_LABEL)], ...] = Field(
        (), description="labels of the nodes for pods with GPUs, as KEY=VALUE. Empty: any node"
    )
    gpu_node_taints: tuple[Annotated[str, Field(pattern=_TAINT)], ...] = Field(
        (),
        description="taints of nodes that pods with GPUs tolerate, as KEY:EFFECT or "
        "KEY=VALUE:EFFECT, such as nvidia.com/gpu:NoSchedule",
    )
    resources: tuple[Annotated[str, Field(pattern=_RESOURCE)], ...] = Field(
        (),
        description="CPU requests and memory of components' pods in place of the computed ones, "
        "such as Frontend:cpu=500m and PdWorker:memory=24Gi",
    )
    hosts: tuple[Annotated[str, Field(pattern=_HOST)], ...] = Field(
        (), description="names by which clients reach the frontends, for ingress_class and gateway"
    )
    ingress_class: str = Field("", description="class of the Ingress to render; empty: none")
    ingress_annotations: tuple[Annotated[str, Field(pattern=_ANNOTATION)], ...] = Field(
        (),
        description="annotations of the Ingress, as KEY=VALUE, such as its controller's timeouts",
    )
    tls_secret: str = Field(
        "", description="secret of the type kubernetes.io/tls for the Ingress; empty: no TLS there"
    )
    gateway: str = Field(
        "",
        pattern=_GATEWAY,
        description="Gateway, as NAMESPACE/NAME, of the HTTPRoute to render; empty: none",
    )
    profile: Path | None = Field(None, description="capacity profile; `auricle profile` writes it")
