"""The planner process."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence

from auricle.config.settings import PlannerSettings
from auricle.dynamo import Route, Runtime
from auricle.load.capacity_profile import CapacityProfile, read_profile
from auricle.load.load_board import LoadBoard
from auricle.load.pools import POOLS, SizedPool
from auricle.load.reports import LOAD_TOPIC, ProcessorLoad, WorkerLoad
from auricle.planner.connectors import Connector, DryRunConnector, LocalConnector
from auricle.planner.kubernetes import KubernetesApi, KubernetesConnector, KubernetesLease
from auricle.planner.leadership import EtcdLease, FileLease, LeaderLease, Leadership
from auricle.planner.plan import Plan, PoolPlan, pool_plan
from auricle.planner.service import PlannerMetrics, PlannerService
from auricle.process.metrics import Registry, report_status
from auricle.protocol.control import AskDecisions

log = logging.getLogger(__name__)


async def run(settings: PlannerSettings) -> None:
    """Size the pools until the process must stop.

    Raises SettingsError if the profile or a setting is invalid.
    """
    profile = await asyncio.to_thread(read_profile, settings.profile)
    pools = sized(settings, profile)
    board = LoadBoard(profile, settings.step_seconds, idle_seconds=settings.idle_seconds)
    connector = _connector(settings, pools, board)
    leadership = Leadership(_lease(settings))
    registry = Registry()
    cores = os.cpu_count() if settings.connector == "local" else None
    plan = Plan(
        [_pool_plan(settings, profile, pool, cores) for pool in pools],
        settings.gpu_budget,
        cores,
    )
    service = PlannerService(
        plan,
        board,
        connector,
        leadership,
        PlannerMetrics(registry.registry),
        settings.step_seconds,
    )
    runtime = Runtime(settings, "decisions", registry.registry)
    runtime.add_metrics(("planner", "decisions"), registry.text)
    for pool in pools:
        runtime.subscribe(pool.kind, LOAD_TOPIC, WorkerLoad, board.worker)
    runtime.subscribe("processor", LOAD_TOPIC, ProcessorLoad, board.processor)
    runtime.tasks.start(service.keep_lease(), "lease")
    runtime.tasks.start(service.run(), "planning")
    every = settings.load_report_seconds
    runtime.tasks.start(service.wake(every), "waking")
    runtime.publish("planner", LOAD_TOPIC, lambda: service.starting(every), every)
    report_status(f"planning every {settings.step_seconds:g} s")
    try:
        # Without an endpoint, Dynamo's system server would report this process as unhealthy.
        route = Route("decisions", AskDecisions, unary=service.decisions, brief=True)
        await runtime.serve("planner", [route])
    finally:
        await leadership.release()
        await connector.close()


def sized(settings: PlannerSettings, profile: CapacityProfile) -> list[SizedPool]:
    """Return the pools to size: the required ones, and the optional ones with a checkpoint.

    A pool without a profile keeps its size, which is logged.
    """
    found = []
    for pool in POOLS.values():
        if not pool.there(settings):
            continue
        if profile.has(pool.kind):
            found.append(pool)
        else:
            log.warning(
                "%s keeps its size: %s has no profile of %s, which `auricle profile` makes with "
                "Common.%s set",
                pool.component,
                settings.profile,
                pool.kind,
                pool.checkpoint,
            )
    return found


def _pool_plan(
    settings: PlannerSettings, profile: CapacityProfile, pool: SizedPool, cores: int | None
) -> PoolPlan:
    limits = pool.limits_of(settings)
    if cores is not None:
        limits = limits.on_one_machine(cores)
    measured = profile.pool(pool.kind)
    return pool_plan(
        settings,
        limits,
        pool.kind,
        start_seconds=measured.start_seconds,
        response_limit=measured.response_seconds,
        annotation=pool.annotation,
    )


def _connector(
    settings: PlannerSettings, pools: Sequence[SizedPool], board: LoadBoard
) -> Connector:
    if settings.connector == "kubernetes":
        return KubernetesConnector(
            KubernetesApi(settings.kubernetes_namespace), settings.deployment, pools
        )
    if settings.connector == "local":
        return LocalConnector(pools)
    return DryRunConnector(pools, board.ready)


def _lease(settings: PlannerSettings) -> LeaderLease:
    if settings.discovery == "kubernetes":
        return KubernetesLease(KubernetesApi(settings.kubernetes_namespace), settings.deployment)
    if settings.discovery == "etcd":
        return EtcdLease(settings.etcd_endpoints, settings.namespace)
    return FileLease(settings.discovery_path)
