"""Messages between the frontends of a deployment."""

from __future__ import annotations

import msgspec


class AskUse(msgspec.Struct, frozen=True, tag=True):
    """Frontend → each other frontend, before a session of a limited key begins or one is resumed,
    and every second if keys have an audio rate; answered by `KeyUse`.

    `ticket` orders sessions that begin at the same time: the receiver takes higher tickets from
    then on. It counts its sessions of `tenant` that have begun, and the waiting ones whose ticket
    is before `ticket` of `frontend`, an instance id. If it serves the session `resumed` with an
    earlier ticket, it ends that first: its client has another connection.
    """

    frontend: int
    ticket: int = 0
    tenant: str = ""
    resumed: str = ""


class KeyUse(msgspec.Struct, frozen=True, tag=True):
    """The use of keys at `frontend`: live sessions and recordings of the tenant in the question.

    `audio_seconds` is the audio charged there since it started, of each tenant with an audio rate.
    """

    frontend: int
    sessions: int = 0
    audio_seconds: dict[str, float] = {}
