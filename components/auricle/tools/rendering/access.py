"""The way of clients to the frontends: a Service, and an Ingress or an HTTPRoute."""

from __future__ import annotations

from auricle.tools.rendering.target import GRPC_PORT, HTTP_PORT, Manifest, Target, labels, manifest

# The prefixes of gRPC's paths. The others are HTTP and WebSocket.
GRPC_SERVICES = (
    "nvidia.riva.asr.RivaSpeechRecognition",
    "inference.GRPCInferenceService",
    "grpc.health.v1.Health",
)
_NAME = "-clients"


def service(target: Target) -> Manifest:
    """Return the Service of all frontends."""
    ports: list[Manifest] = [{"name": "http", "port": HTTP_PORT, "targetPort": "http"}]
    if target.serves_grpc:
        # Proxies then speak HTTP/2 without TLS to the frontends.
        h2c = {"appProtocol": "kubernetes.io/h2c"}
        ports.append({"name": "grpc", "port": GRPC_PORT, "targetPort": "grpc", **h2c})
    spec = {"selector": labels(target.cluster.name, "Frontend"), "ports": ports}
    return manifest(target.cluster, "Service", _NAME, spec=spec)


def ingress(target: Target) -> list[Manifest]:
    """Return the Ingress for HTTP and WebSocket, if `Kubernetes.ingress_class` is set."""
    cluster = target.cluster
    if not cluster.ingress_class:
        return []
    backend = {"service": {"name": f"{cluster.name}{_NAME}", "port": {"name": "http"}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    spec: Manifest = {
        "ingressClassName": cluster.ingress_class,
        "rules": [{"host": host, "http": {"paths": [path]}} for host in cluster.hosts],
    }
    if cluster.tls_secret:
        spec["tls"] = [{"hosts": list(cluster.hosts), "secretName": cluster.tls_secret}]
    found = manifest(cluster, "Ingress", _NAME, spec=spec)
    if cluster.ingress_annotations:
        pairs = (one.split("=", 1) for one in cluster.ingress_annotations)
        found["metadata"]["annotations"] = dict(pairs)
    return [found]


def http_route(target: Target) -> list[Manifest]:
    """Return the HTTPRoute for all protocols of the ports, if `Kubernetes.gateway` is set.

    gRPC has the same host names: a GRPCRoute must not share them with an HTTPRoute.
    """
    cluster = target.cluster
    if not cluster.gateway:
        return []
    namespace, _, name = cluster.gateway.partition("/")
    rules = [_rule(target, ["/"], HTTP_PORT)]
    if target.serves_grpc:
        rules.insert(0, _rule(target, [f"/{one}" for one in GRPC_SERVICES], GRPC_PORT))
    spec = {
        "parentRefs": [{"name": name, "namespace": namespace}],
        "hostnames": list(cluster.hosts),
        "rules": rules,
    }
    return [manifest(cluster, "HTTPRoute", _NAME, spec=spec)]


def _rule(target: Target, paths: list[str], port: int) -> Manifest:
    return {
        "matches": [{"path": {"type": "PathPrefix", "value": path}} for path in paths],
        "backendRefs": [{"name": f"{target.cluster.name}{_NAME}", "port": port}],
        "timeouts": {"request": "0s"},  # none: a session lasts as long as its client speaks
    }
