"""What is rendered: validated settings of every component, and of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auricle.checkpoint.files import open_checkpoint
from auricle.embeddings.layout import ITEM_BYTES, SlabLayout
from auricle.errors import CheckpointError, SettingsError
from auricle.launcher.config import COMMON, kubernetes_settings, load_config, settings_for
from auricle.launcher.graph import load_graph
from auricle.rendering.names import CONFIG_PATH, HTTP_PORT, KEYS_PATH, MODELS_PATH, SYSTEM_PORT
from auricle.settings import CommonSettings, KubernetesSettings, PdWorkerSettings

_MIB = 1 << 20
# A PD worker has a GPU for itself there; on one machine it may share it with an encoder.
_OWN_GPU_SHARE = 0.9
PROFILE_FILE, CONFIG_FILE, KEYS_FILE = "profile.json", "config.yaml", "keys.yaml"


@dataclass(frozen=True)
class Target:
    """`sections` is the configuration as pods get it; `settings` the same, validated."""

    cluster: KubernetesSettings
    sections: Mapping[str, Mapping[str, Any]]
    settings: Mapping[str, CommonSettings]

    @property
    def components(self) -> tuple[str, ...]:
        """Callees before callers; a planner only where one is to size the pools."""
        return tuple(self.settings)

    def slab_mib(self, component: str) -> int:
        """Of a worker's slab, rounded up; 0 for other components."""
        settings = self.settings[component]
        slots = getattr(settings, "slots", 0) or getattr(settings, "landing_slots", 0)
        layout = SlabLayout(*_geometry(settings, self.cluster))
        return -(-slots * layout.slot_bytes // _MIB)

    def kv_mib(self) -> int:
        """KV cache of a PD worker that has it in host memory."""
        settings = self.settings["PdWorker"]
        assert isinstance(settings, PdWorkerSettings)
        return 0 if self.on_gpu else settings.kv_cache_gib * 1024

    @property
    def on_gpu(self) -> bool:
        """Whether the configuration is for GPUs."""
        return getattr(self.settings["EncodeWorker"], "device", "cpu") != "cpu"


def read_target(graph: str, config: Path) -> Target:
    """Raises SettingsError for anything in the file that a cluster could not run."""
    sections = load_config(config)
    cluster = kubernetes_settings(sections, str(config))
    adapted = {name: dict(own) for name, own in sections.items() if name != "Kubernetes"}
    for name, values in _for_pods(cluster).items():
        adapted.setdefault(name, {}).update(values)
    names = load_graph(graph).in_start_order()
    settings = {name: settings_for(name, adapted, str(config)) for name in names}
    _check(settings["Frontend"], str(config))
    if cluster.autoscaling == "none":
        settings.pop("Planner", None)
        adapted.pop("Planner", None)
    elif cluster.profile is None:
        raise SettingsError(
            f"{config}: Kubernetes.autoscaling is 'planner', which needs Kubernetes.profile; "
            "`auricle profile` measures one on a GPU of the cluster's kind"
        )
    return Target(cluster, adapted, settings)


def _for_pods(cluster: KubernetesSettings) -> dict[str, dict[str, Any]]:
    """What is different in a pod than on one machine."""
    found: dict[str, dict[str, Any]] = {
        COMMON: {
            "discovery": "kubernetes",
            "event_plane": "nats",
            "system_port": SYSTEM_PORT,
            "log_format": "json",
        },
        "Frontend": {"host": "0.0.0.0", "port": HTTP_PORT, "system_port": 0},
        "EncodeWorker": {"gpus": []},
        "PdWorker": {"gpus": [], "gpu_memory_share": _OWN_GPU_SHARE},
        "Planner": {
            "replicas": 1,
            "connector": "kubernetes",
            "deployment": cluster.name,
            "profile": f"{CONFIG_PATH}/{PROFILE_FILE}",
        },
    }
    if cluster.api_keys_secret:
        found["Frontend"]["api_keys_file"] = f"{KEYS_PATH}/{KEYS_FILE}"
    return found


def _check(frontend: CommonSettings, source: str) -> None:
    if not str(frontend.model).startswith(f"{MODELS_PATH}/"):
        raise SettingsError(
            f"{source}: Common.model is {frontend.model}; in pods checkpoints are below "
            f"{MODELS_PATH}, such as {MODELS_PATH}/Qwen3-ASR-0.6B"
        )


def _geometry(settings: CommonSettings, cluster: KubernetesSettings) -> tuple[int, int, int]:
    """(hidden size, bytes per value, embeddings per window), of the checkpoint if it is here."""
    try:
        geometry = open_checkpoint(settings.model).geometry
        hidden, window = geometry.hidden_size, geometry.window_embeddings
    except CheckpointError:
        hidden, window = cluster.hidden_size, cluster.window_embeddings
    return hidden, ITEM_BYTES[settings.dtype], window
