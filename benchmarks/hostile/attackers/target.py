"""What an attacker knows of the graph it attacks."""

from __future__ import annotations

import msgspec


class Port(msgspec.Struct, frozen=True):
    """A TCP port on which a process of the graph listens, and can be reached at `host`.

    `bound` is the address it is bound to; `system`: it speaks HTTP.
    """

    component: str
    host: str
    bound: str
    number: int
    system: bool


class Target(msgspec.Struct, frozen=True):
    """A running graph.

    `key` is the attacker's own API key, `newcomer` that of a client who comes while an attack
    goes on, `withdrawn` one of the tenant `withdrawn-tenant` that is switched off. `witness` is
    the witness's session and `tenant` its tenant. `ports` and `sockets` (paths of Unix sockets)
    are those inside the graph. `audio` is a recording (path) whose transcription takes a moment.
    The last three are the frontend's other ports; 0: it has none.
    """

    host: str
    port: int
    key: str
    newcomer: str
    withdrawn: str
    witness: str
    tenant: str
    namespace: str
    discovery: str
    ports: tuple[Port, ...]
    sockets: tuple[str, ...]
    audio: str
    wyoming_port: int = 0
    audiosocket_port: int = 0
    grpc_port: int = 0
