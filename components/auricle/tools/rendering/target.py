"""The input of rendering: validated settings of all components and of the cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from auricle.checkpoints.download.store import find, is_name
from auricle.checkpoints.files import open_checkpoint
from auricle.checkpoints.geometry import kv_values_per_token
from auricle.config.common import PoolLimits
from auricle.config.devices import SHARING_GPUS
from auricle.config.kubernetes import KubernetesSettings
from auricle.config.settings import CommonSettings, PlannerSettings
from auricle.config.workers import DecoderSettings
from auricle.core.errors import CheckpointError, SettingsError
from auricle.embeddings.layout import ITEM_BYTES, SlabLayout
from auricle.launcher.config import COMMON, KUBERNETES, all_settings, load_config, settings_for
from auricle.launcher.graph import load_graph
from auricle.launcher.model_folders import READERS
from auricle.load.pools import POOLS

# Labels, ports, paths and names used in several manifests.

Manifest = dict[str, Any]

# Fixed, because NetworkPolicies list them.
HTTP_PORT = 8000
GRPC_PORT = 8001
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


API_VERSIONS = {
    "ConfigMap": "v1",
    "DynamoGraphDeployment": "nvidia.com/v1beta1",
    "HTTPRoute": "gateway.networking.k8s.io/v1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
    "Ingress": "networking.k8s.io/v1",
    "Job": "batch/v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "PersistentVolumeClaim": "v1",
    "PodDisruptionBudget": "policy/v1",
    "PodMonitor": "monitoring.coreos.com/v1",
    "PrometheusRule": "monitoring.coreos.com/v1",
    "Role": "rbac.authorization.k8s.io/v1",
    "RoleBinding": "rbac.authorization.k8s.io/v1",
    "ScaledObject": "keda.sh/v1alpha1",
    "Service": "v1",
    "ServiceAccount": "v1",
}


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


def manifest(cluster: KubernetesSettings, kind: str, name: str, **body: Any) -> Manifest:
    """Return an object of the deployment; it has the name of the deployment, then `name`."""
    return {
        "apiVersion": API_VERSIONS[kind],
        "kind": kind,
        "metadata": {"name": f"{cluster.name}{name}", "namespace": cluster.namespace},
        **body,
    }


_MIB = 1 << 20
# On a cluster a PD worker has a GPU of its own; on one machine it may share it with an encoder.
_OWN_GPU_SHARE = 0.9
PROFILE_FILE, CONFIG_FILE, KEYS_FILE = "profile.json", "config.yaml", "keys.yaml"
SECRET_KEY = "secrets"


@dataclass(frozen=True)
class Target:
    """A deployment: `sections` is the configuration of pods; `settings` is it validated."""

    cluster: KubernetesSettings
    sections: Mapping[str, Mapping[str, Any]]
    settings: Mapping[str, CommonSettings]

    @property
    def components(self) -> tuple[str, ...]:
        """The components, callees first; the planner only with autoscaling `planner`."""
        return tuple(self.settings)

    @property
    def pools(self) -> dict[str, PoolLimits]:
        """The bounds of each pool by component; only if the components include a planner."""
        planner = self.settings["Planner"]
        assert isinstance(planner, PlannerSettings)
        return {
            pool.component: pool.limits_of(planner)
            for pool in POOLS.values()
            if pool.component in self.settings
        }

    def slab_mib(self, component: str) -> int:
        """Return the size of a worker's slab in MiB, rounded up; 0 for other components."""
        settings = self.settings[component]
        slots = getattr(settings, "slots", 0) or getattr(settings, "landing_slots", 0)
        layout = SlabLayout(*_geometry(settings, self.cluster))
        return -(-slots * layout.slot_bytes // _MIB)

    def kv_mib(self, component: str) -> int:
        """Return the MiB of an engine's KV cache in host memory, rounded up; 0 on a GPU.

        What `kv_blocks` take is known where the checkpoint can be read here.
        """
        settings = self.settings[component]
        assert isinstance(settings, DecoderSettings)
        if self.on_gpu:
            return 0
        if settings.kv_blocks is not None:
            with suppress(CheckpointError):
                text = open_checkpoint(settings.checkpoint).text_config
                token = kv_values_per_token(text) * ITEM_BYTES[settings.dtype]
                return -(-settings.kv_blocks * settings.block_size * token // _MIB)
        return settings.kv_cache_gib * 1024

    @cached_property
    def files(self) -> dict[str, str]:
        """The configuration of pods, and the planner's capacity profile.

        Raises SettingsError if the profile cannot be read.
        """
        found = {CONFIG_FILE: yaml.safe_dump(dict(self.sections), sort_keys=False)}
        if "Planner" in self.components and (profile := self.cluster.profile) is not None:
            try:
                found[PROFILE_FILE] = profile.read_text()
            except OSError as error:
                reason = f"cannot read Kubernetes.profile {profile}: {error}"
                raise SettingsError(reason) from None
        return found

    @property
    def on_gpu(self) -> bool:
        return on_gpu(self.settings)

    @property
    def image(self) -> str:
        return self.cluster.image or ("auricle:gpu" if self.on_gpu else "auricle:cpu")

    @property
    def uses_claim(self) -> bool:
        """Whether pods read models from the claim; the image has the bundled one."""
        return bool(_models(self.settings["Frontend"]) - _in_image(self.settings))

    @property
    def serves_grpc(self) -> bool:
        return getattr(self.settings["Frontend"], "grpc_port", None) is not None

    def resource(self, component: str, kind: str) -> str | None:
        """Return what `Kubernetes.resources` sets for a component: `cpu` or `memory`."""
        given = dict(one.split("=") for one in self.cluster.resources)
        return given.get(f"{component}:{kind}")


def on_gpu(settings: Mapping[str, CommonSettings]) -> bool:
    return getattr(settings["EncodeWorker"], "device", "cpu") != "cpu"


def _with_own_gpu(own: dict[str, Any]) -> None:
    """Remove settings of an engine that do not fit a pod, which has a GPU of its own or none."""
    own.pop("processes_per_device", None)
    if own.get("engine", "vllm") not in SHARING_GPUS:
        own.pop("gpu_memory_share", None)


def read_target(graph: str, config: Path, overrides: Iterable[str] = ()) -> Target:
    """Read the settings of a graph for a cluster, with the overrides `--Component.key=value`.

    Raises SettingsError for invalid settings, and for those that do not work in pods.
    """
    sections = load_config(config, overrides)
    cluster: KubernetesSettings = settings_for(KUBERNETES, sections, str(config))
    adapted = deepcopy(sections)
    adapted.pop(KUBERNETES, None)
    names = load_graph(graph).in_start_order()
    if "DynamoFrontend" in names:
        raise SettingsError(
            f"{graph} is not rendered: Dynamo's own frontend has no manifest here; render "
            "graphs.e_pd:Frontend, and deploy `dynamo.frontend` with Dynamo's own chart"
        )
    for name, values in _for_pods(cluster).items():
        if name in (COMMON, *names):
            adapted.setdefault(name, {}).update(values)
    if adapted.get("Frontend", {}).get("grpc_port") is not None:
        adapted["Frontend"]["grpc_port"] = GRPC_PORT
    for own in adapted.values():
        if own.get("dtype") == "auto":
            own["dtype"] = _DTYPE_OF_ANY_NODE
    for name in ENGINES:
        _with_own_gpu(adapted.get(name, {}))
    settings = all_settings(names, adapted, str(config))
    _check(settings, str(config))
    unknown = {one.partition(":")[0] for one in cluster.resources} - settings.keys()
    if unknown:
        raise SettingsError(
            f"{config}: Kubernetes.resources names {', '.join(sorted(unknown))}; {graph} has "
            f"{', '.join(settings)}"
        )
    if (cluster.ingress_class or cluster.gateway) and not cluster.hosts:
        raise SettingsError(
            f"{config}: Kubernetes.ingress_class and gateway need Kubernetes.hosts, the names by "
            "which clients reach the server"
        )
    if cluster.autoscaling == "none" or (cluster.autoscaling is None and cluster.profile is None):
        settings.pop("Planner", None)
        adapted.pop("Planner", None)
    elif cluster.profile is None:
        raise SettingsError(
            f"{config}: Kubernetes.autoscaling is 'planner', which needs Kubernetes.profile; "
            "`auricle profile` measures one on a GPU of the cluster's kind"
        )
    target = Target(cluster, adapted, settings)
    if "Planner" in settings:
        _check_pools(target, str(config))
    return target


def _for_pods(cluster: KubernetesSettings) -> dict[str, dict[str, Any]]:
    """Return the settings that differ in pods from those on one machine."""
    found: dict[str, dict[str, Any]] = {
        COMMON: {
            "discovery": "kubernetes",
            "event_plane": "nats",
            "secret_file": f"{SECRET_PATH}/{SECRET_KEY}",
            "system_port": SYSTEM_PORT,
            "log_format": "json",
        },
        "Frontend": {"host": "0.0.0.0", "port": HTTP_PORT, "system_port": 0},
        "EncodeWorker": {"gpus": []},
        "PdWorker": {"gpus": [], "gpu_memory_share": _OWN_GPU_SHARE},
        "AlignEncodeWorker": {"gpus": []},
        "AlignWorker": {"gpus": []},
        "DiarizeWorker": {"gpus": []},
        "TranslateWorker": {"gpus": [], "gpu_memory_share": _OWN_GPU_SHARE},
        "Planner": {
            "replicas": 1,
            "connector": "kubernetes",
            "deployment": cluster.name,
            "profile": f"{CONFIG_PATH}/{PROFILE_FILE}",
        },
    }
    if not cluster.rdma_resource:
        # CUDA IPC does not reach other pods, which have process ids and GPUs of their own.
        found[COMMON]["slab"] = "host"
    if cluster.api_keys_secret:
        found["Frontend"]["api_keys_file"] = f"{KEYS_PATH}/{KEYS_FILE}"
    return found


def named_models(settings: CommonSettings) -> list[str]:
    """Return the models that are named, rather than given as folders: those that are pulled."""
    given = (str(path) for key in READERS if (path := getattr(settings, key)) is not None)
    return [name for name in dict.fromkeys(given) if is_name(name)]


_MODELS = ("model", "align_model", "speaker_model", "translate_model")
# Bundled models, below the working directory of the images.
_IN_IMAGES, _IN_CPU_IMAGE = "models/speakers", "models/demo"
# Nodes may have different CPUs, which all processes of one deployment must suit.
_DTYPE_OF_ANY_NODE = "float32"


def _models(settings: CommonSettings) -> set[str]:
    """Return the models that are set, by name or as folders."""
    return {str(path) for key in _MODELS if (path := getattr(settings, key)) is not None}


def _in_image(settings: Mapping[str, CommonSettings]) -> set[str]:
    return {_IN_IMAGES} if on_gpu(settings) else {_IN_IMAGES, _IN_CPU_IMAGE}


def _check(components: Mapping[str, CommonSettings], source: str) -> None:
    settings, bundled = components["Frontend"], _in_image(components)
    for key in _MODELS:
        path = getattr(settings, key)
        if path is None or str(path).startswith(f"{MODELS_PATH}/"):
            continue
        if str(path) in bundled:
            continue
        if key not in READERS or not is_name(str(path)):
            raise SettingsError(
                f"{source}: Common.{key} is {path}; in pods checkpoints are below {MODELS_PATH}, "
                f"such as {MODELS_PATH}/Qwen3-ASR-0.6B, or have the name of a published one, such "
                "as Qwen/Qwen3-ASR-0.6B"
            )


def _check_pools(target: Target, source: str) -> None:
    for name, limits in target.pools.items():
        if (replicas := target.settings[name].replicas) > limits.maximum:
            raise SettingsError(
                f"{source}: {name}.replicas is {replicas}, more than the {limits.maximum} that "
                "the planner's maximum for this pool allows"
            )


def _geometry(settings: CommonSettings, cluster: KubernetesSettings) -> tuple[int, int, int]:
    """Return hidden size, bytes per value and embeddings per window.

    They come from the checkpoint if it can be read here, otherwise from section `Kubernetes`.
    """
    try:
        folder = settings.checkpoint
        geometry = open_checkpoint(find(str(folder)) or folder).geometry
        hidden, window = geometry.hidden_size, geometry.window_embeddings
    except CheckpointError:
        hidden, window = cluster.hidden_size, cluster.window_embeddings
    return hidden, ITEM_BYTES[settings.dtype], window
