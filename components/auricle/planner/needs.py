"""Requirements of a planner, for `auricle component Planner --check`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from auricle.config.settings import PlannerSettings
from auricle.process.needs import Need, imports_of

_CLUSTERS = (
    "aetcd",
    "aiohttp",
    "kubernetes_asyncio.client.exceptions",
    "kubernetes_asyncio.config",
    "kubernetes_asyncio.leaderelection.electionconfig",
    "kubernetes_asyncio.leaderelection.leaderelection",
    "kubernetes_asyncio.leaderelection.resourcelock.leaselock",
)


def needs(settings: PlannerSettings) -> Sequence[Need]:
    return [
        imports_of("planner", *_CLUSTERS),
        Need("profile", partial(_profile, settings.profile)),
    ]


def _profile(path: Path | None) -> str:
    from auricle.load.capacity_profile import read_profile

    read_profile(path)
    return f"{path} is valid"
