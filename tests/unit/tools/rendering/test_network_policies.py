"""Connections that the rendered NetworkPolicies permit, evaluated as Kubernetes defines them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml

from auricle.tools.rendering.target import labels
from auricle_testing.server import ROOT

pytestmark = pytest.mark.unit
# tests/unit/tools/rendering/test_rendering.py verifies that they are current.
FILE = ROOT / "deploy/k8s/h100-0.6b/base/networkpolicies.yaml"
POLICIES: list[dict[str, Any]] = list(yaml.safe_load_all(FILE.read_text()))
# Our processes' ports, their neighbours, and unused ports.
PORTS = (22, 53, 80, 443, 4222, 6443, 8000, 8080, 9090, 9345, 9346, 9347)
PORTS += (19999, 20000, 20050, 20099, 20100)
COMPONENTS = ("Frontend", "Processor", "EncodeWorker", "PdWorker", "Planner")
WORKERS = ("EncodeWorker", "PdWorker")


@dataclass(frozen=True)
class Peer:
    """A pod, or a host outside the cluster where `namespace` is None."""

    namespace: str | None
    labels: dict[str, str] = field(default_factory=dict)


OURS = {name: Peer("auricle", labels("auricle", name)) for name in COMPONENTS}
NEIGHBOUR = Peer("auricle", {"app.kubernetes.io/name": "neighbour"})
NAMESAKE = Peer("elsewhere", labels("auricle", "EncodeWorker"))
OUTSIDE = Peer(None)
STRANGERS = (NEIGHBOUR, NAMESAKE, OUTSIDE)
PLATFORM, MONITORING = Peer("dynamo-system"), Peer("monitoring")


def selected(selector: dict[str, Any], own: dict[str, str]) -> bool:
    assert selector.keys() <= {"matchLabels"}
    return selector.get("matchLabels", {}).items() <= own.items()


def is_peer(entry: dict[str, Any], peer: Peer, home: str) -> bool:
    assert entry.keys() <= {"podSelector", "namespaceSelector"}
    if peer.namespace is None:
        return False
    if "namespaceSelector" in entry:
        own = {"kubernetes.io/metadata.name": peer.namespace}
        here = selected(entry["namespaceSelector"], own)
    else:
        here = peer.namespace == home
    return here and selected(entry.get("podSelector", {}), peer.labels)


def is_port(entry: dict[str, Any], protocol: str, port: int) -> bool:
    first = entry["port"]
    return bool(entry["protocol"] == protocol and first <= port <= entry.get("endPort", first))


def lets(direction: str, pod: Peer, other: Peer, protocol: str, port: int) -> bool:
    """Policies are additive; a pod that no policy selects is open."""
    side = "from" if direction == "Ingress" else "to"
    applying = [
        p
        for p in POLICIES
        if p["metadata"]["namespace"] == pod.namespace
        and direction in p["spec"]["policyTypes"]
        and selected(p["spec"]["podSelector"], pod.labels)
    ]
    if not applying:
        return True
    return any(
        (side not in rule or any(is_peer(e, other, str(pod.namespace)) for e in rule[side]))
        and ("ports" not in rule or any(is_port(e, protocol, port) for e in rule["ports"]))
        for policy in applying
        for rule in policy["spec"].get(direction.lower(), ())
    )


def reached(source: Peer, target: Peer, protocol: str = "TCP") -> set[int]:
    return {
        port
        for port in PORTS
        if lets("Egress", source, target, protocol, port)
        and lets("Ingress", target, source, protocol, port)
    }


@pytest.mark.parametrize("source", COMPONENTS)
@pytest.mark.parametrize("target", COMPONENTS)
def test_our_pods_reach_each_other_by_requests_and_workers_by_embeddings(
    source: str, target: str
) -> None:
    embeddings = {20000, 20050, 20099} if {source, target} <= set(WORKERS) else set()
    assert reached(OURS[source], OURS[target]) == {9345, 9346} | embeddings
    assert reached(OURS[source], OURS[target], "UDP") == set()


@pytest.mark.parametrize("target", COMPONENTS)
def test_strangers_reach_frontends_and_nothing_else(target: str) -> None:
    for stranger in STRANGERS:
        expected = {8000} if target == "Frontend" else set()
        assert reached(stranger, OURS[target]) == expected, stranger
        assert reached(stranger, OURS[target], "UDP") == set(), stranger


@pytest.mark.parametrize("target", COMPONENTS)
def test_the_platform_and_prometheus_reach_health_and_metrics(target: str) -> None:
    for peer in (PLATFORM, MONITORING):
        assert reached(peer, OURS[target]) == {8000, 9090}


@pytest.mark.parametrize("source", COMPONENTS)
def test_our_pods_reach_nats_dns_and_the_api_server_and_nothing_else(source: str) -> None:
    pod = OURS[source]
    assert reached(pod, OUTSIDE) == {443, 6443}
    assert reached(pod, OUTSIDE, "UDP") == set()
    assert reached(pod, PLATFORM) == {53, 443, 4222, 6443}
    for other in (NEIGHBOUR, NAMESAKE, MONITORING):
        assert reached(pod, other) == {53, 443, 6443}
        assert reached(pod, other, "UDP") == {53}
