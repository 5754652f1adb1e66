"""A planner's requests to the launcher of a running graph."""

from __future__ import annotations

import httpx

from auricle_testing.server import ANSWER_SECONDS, Server


class Launcher:
    """Scales the components of a graph."""

    def __init__(self, server: Server) -> None:
        socket = server.component("Processor").environ()["AURICLE_LAUNCHER"]
        transport = httpx.HTTPTransport(uds=socket)
        self._client = httpx.Client(transport=transport, timeout=ANSWER_SECONDS)

    def scale(self, component: str, replicas: int) -> None:
        path = f"http://launcher/components/{component}/replicas"
        self._client.put(path, json={"replicas": replicas}).raise_for_status()

    def replicas(self, component: str) -> int:
        found = self._client.get("http://launcher/components").json()
        return int(found[component]["replicas"])

    def ready(self, component: str) -> int:
        found = self._client.get("http://launcher/components").json()
        return int(found[component]["ready"])

    def settled(self, component: str, replicas: int) -> bool:
        """Whether the component has this number of replicas, all of them ready."""
        found = self._client.get("http://launcher/components").json()[component]
        return dict(found) == {"replicas": replicas, "ready": replicas}

    def refuses(self, component: str, body: object) -> str:
        path = f"http://launcher/components/{component}/replicas"
        answer = self._client.put(path, json=body)
        assert answer.status_code in (400, 404)
        return str(answer.json()["error"])
