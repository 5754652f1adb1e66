"""Writes the Helm chart: the manifests of configurations, and the schema of its values.

The chart's templates, which are not generated, change what operators set in values.
`python -m auricle.tools.rendering.chart` writes the chart of the repository.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from auricle.config.settings import SECTIONS, CommonSettings
from auricle.core.errors import SettingsError
from auricle.launcher.config import COMMON
from auricle.tools.rendering.monitoring import alerts, dashboard
from auricle.tools.rendering.supporting_manifests import pod_monitors
from auricle.tools.rendering.target import GRPC_PORT, Manifest, Target, read_target
from auricle.tools.rendering.write import folders

CHART = Path("deploy/helm/auricle")
GRAPH = "graphs.e_pd:Frontend"
# The configurations in the repository's chart.
SHIPPED = ("demo", "h100-0.6b", "h100-1.7b", "whisper")
# Placeholders, which the templates replace by the names of the release and of its objects.
_NAMES = {
    "name": "the-release",
    "namespace": "the-namespace",
    "image": "the-image",
    "internal_secret": "the-internal-secret",
    "api_keys_secret": "the-keys-secret",
    "hub_token_secret": "the-hub-secret",
    "model_claim": "the-claim",
    "storage_class": "the-storage-class",
    "platform_namespace": "the-platform",
    "monitoring_namespace": "the-monitoring",
}
# Settings that values cannot change: they are rendered into manifests, or determine sizes there.
_RENDERED = frozenset(
    (
        *("model", "align_model", "speaker_model", "translate_model", "dtype", "device", "slab"),
        *("slots", "landing_slots", "kv_blocks", "kv_cache_gib", "block_size", "replicas", "gpus"),
        *("processes_per_device", "gpu_memory_share", "max_stored_upload_bytes"),
        *("drain_seconds", "liveness_seconds", "system_port", "host", "port", "grpc_port"),
        *("discovery", "discovery_path", "event_plane", "secret_file", "insecure_internal"),
        *("etcd_endpoints", "nats_server", "api_keys_file", "connector", "deployment", "profile"),
        *("kubernetes_namespace", "encode", "pd", "align_encode", "align", "diarize", "translate"),
    )
)


def write_chart(
    out: Path, configurations: Mapping[str, Path], graph: str, overrides: Sequence[str] = ()
) -> list[Path]:
    """Write a chart with these configurations below `out`; return the paths of its files.

    Raises SettingsError before a file is written, also without the repository's chart.
    """
    if not CHART.is_dir():
        raise SettingsError(f"no {CHART} here; run this in auricle's repository")
    files = generated(configurations, graph, overrides)
    if out.resolve() != CHART.resolve():
        kept = shutil.ignore_patterns("files")
        shutil.copytree(CHART, out, ignore=kept, dirs_exist_ok=True)
        values = (CHART / "values.yaml").read_text()
        first = next(iter(configurations))
        values = values.replace("configuration: h100-0.6b", f"configuration: {first}")
        (out / "values.yaml").write_text(values)
    for name, text in files.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(text)
    return sorted(path for path in out.rglob("*") if path.is_file())


def generated(
    configurations: Mapping[str, Path], graph: str, overrides: Sequence[str] = ()
) -> dict[str, str]:
    """Return the text of the generated files by path in the chart. Raises SettingsError."""
    found = {}
    for name, config in configurations.items():
        named = [f"--Kubernetes.{key}={value}" for key, value in _NAMES.items()]
        named.append(f"--Frontend.grpc_port={GRPC_PORT}")
        target = read_target(graph, config, [*overrides, *named])
        image = read_target(graph, config, overrides).image
        found[f"files/{name}.json"] = _configuration(target, image)
    shared = {"monitoring": [alerts(target), dashboard(target)]}
    found["files/monitoring.json"] = _lines(shared)
    found["values.schema.json"] = json.dumps(schema(configurations), indent=1) + "\n"
    return found


def _configuration(target: Target, image: str) -> str:
    """Return the manifests of a configuration; a manifest a line, so that changes can be read."""
    everything = folders(target)

    def manifests(folder: str) -> list[Manifest]:
        files = everything.get(folder, {}).items()
        return [one for name, some in files if name != "kustomization.yaml" for one in some]

    found: dict[str, Any] = {"image": image, "base": manifests("base")}
    found["monitoring"] = pod_monitors(target)
    for name, folder in (("hpa", "hpa"), ("keda", "keda"), ("replicaBounds", "replica-bounds")):
        if some := manifests(f"overlays/{folder}"):
            found[name] = some
    return _lines(found)


def _lines(groups: Mapping[str, Any]) -> str:
    lines = []
    for name, content in groups.items():
        if isinstance(content, list):
            members = ",\n".join(json.dumps(one, separators=(",", ":")) for one in content)
            lines.append(f'"{name}": [\n{members}\n]')
        else:
            lines.append(f'"{name}": {json.dumps(content)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


# The schema of values.


def schema(configurations: Iterable[str]) -> dict[str, Any]:
    """Return the JSON Schema of the chart's values; `settings` follow the settings' types."""
    definitions: dict[str, Any] = {}
    kinds: dict[str, type[BaseModel]] = {COMMON: CommonSettings, **SECTIONS}
    settings = {name: _section(kind, definitions) for name, kind in kinds.items()}
    text = {"type": "string"}
    any_of = {"type": "object"}

    def by_component(of: Mapping[str, Any]) -> dict[str, Any]:
        return _object(dict.fromkeys(SECTIONS, of))

    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **_object(
            {
                "configuration": {"enum": list(configurations)},
                "image": text,
                "imagePullSecrets": {"type": "array", "items": _object({"name": text})},
                "replicas": by_component({"type": "integer", "minimum": 0}),
                "resources": by_component(_object({"requests": any_of, "limits": any_of})),
                "nodeSelector": by_component({"type": "object", "additionalProperties": text}),
                "tolerations": by_component({"type": "array", "items": any_of}),
                "settings": _object(settings),
                "autoscaler": {"enum": ["planner", "hpa", "keda"]},
                "replicaBounds": {"type": "boolean"},
                "models": _object(
                    {
                        "claim": text,
                        "existing": {"type": "boolean"},
                        "size": text,
                        "storageClass": text,
                    }
                ),
                "secrets": _object({"internal": text, "apiKeys": text, "hubToken": text}),
                "platformNamespace": text,
                "monitoring": _object({"enabled": {"type": "boolean"}, "namespace": text}),
                "hosts": {"type": "array", "items": text},
                "ingress": _object({"className": text, "annotations": any_of, "tlsSecret": text}),
                "gateway": _object({"name": text, "namespace": text}),
                "global": any_of,  # Helm's own
            }
        ),
        "$defs": definitions,
    }


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "additionalProperties": False}


def _section(kind: type[BaseModel], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a section; definitions that it refers to are added to `definitions`."""
    whole = kind.model_json_schema()
    definitions |= {name: _bare(one) for name, one in whole.get("$defs", {}).items()}
    own = {name: _bare(one) for name, one in whole["properties"].items() if name not in _RENDERED}
    return _object(own)


def _bare(part: Any) -> Any:
    """Return a part without titles, and without defaults, which depend on the configuration."""
    if isinstance(part, dict):
        return {key: _bare(one) for key, one in part.items() if key not in ("title", "default")}
    return [_bare(one) for one in part] if isinstance(part, list) else part


def main() -> None:
    """Write the chart of the repository."""
    shipped = {name: Path("configs") / f"{name}.yaml" for name in SHIPPED}
    for path in write_chart(CHART, shipped, GRAPH):
        print(path)


if __name__ == "__main__":
    main()
