"""The planner process."""

from __future__ import annotations

import asyncio
import os

from auricle.load.capacity_profile import CapacityProfile, read_profile
from auricle.load.load_board import LoadBoard
from auricle.load.reports import LOAD_TOPIC, ProcessorLoad, WorkerKind, WorkerLoad
from auricle.messages import AskDecisions
from auricle.planner.connectors.base import COMPONENTS, Connector
from auricle.planner.connectors.dry_run import DryRunConnector
from auricle.planner.connectors.kubernetes import KubernetesConnector
from auricle.planner.connectors.local import LocalConnector
from auricle.planner.kubernetes_api import KubernetesApi
from auricle.planner.leadership.base import Leadership, Lease
from auricle.planner.leadership.etcd import EtcdLease
from auricle.planner.leadership.file import FileLease
from auricle.planner.leadership.kubernetes import KubernetesLease
from auricle.planner.metrics import PlannerMetrics
from auricle.planner.plan import Plan, PoolPlan
from auricle.planner.service import PlannerService
from auricle.planner.sizing import pool_plan
from auricle.process.metrics import Registry
from auricle.process.status import report_status
from auricle.runtime import Route, Runtime
from auricle.settings import PlannerSettings


async def run(settings: PlannerSettings) -> None:
    """Size the pools until the process is told to stop.

    Raises SettingsError if the profile or a setting is invalid.
    """
    profile = await asyncio.to_thread(read_profile, settings.profile)
    board = LoadBoard(profile, settings.step_seconds)
    connector = _connector(settings, board)
    leadership = Leadership(_lease(settings))
    registry = Registry()
    cores = os.cpu_count() if settings.connector == "local" else None
    plan = Plan(
        [_pool_plan(settings, profile, kind, cores) for kind in COMPONENTS],
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
    for kind in COMPONENTS:
        runtime.subscribe(kind, LOAD_TOPIC, WorkerLoad, board.worker)
    runtime.subscribe("processor", LOAD_TOPIC, ProcessorLoad, board.processor)
    runtime.tasks.start(service.keep_lease(), "lease")
    runtime.tasks.start(service.run(), "planning")
    report_status(f"planning every {settings.step_seconds:g} s")
    try:
        # Without an endpoint, Dynamo's system server would report this process as unhealthy.
        route = Route("decisions", AskDecisions, unary=service.decisions, brief=True)
        await runtime.serve("planner", [route])
    finally:
        await leadership.release()
        await connector.close()


def _pool_plan(
    settings: PlannerSettings, profile: CapacityProfile, kind: WorkerKind, cores: int | None
) -> PoolPlan:
    limits = settings.encode if kind == "encode_worker" else settings.pd
    if cores is not None:
        limits = limits.on_one_machine(cores)
    measured = profile.pool(kind)
    return pool_plan(
        settings,
        limits,
        kind,
        start_seconds=measured.start_seconds,
        response_limit=measured.response_seconds,
    )


def _connector(settings: PlannerSettings, board: LoadBoard) -> Connector:
    if settings.connector == "kubernetes":
        return KubernetesConnector(
            KubernetesApi(settings.kubernetes_namespace), settings.deployment
        )
    if settings.connector == "local":
        return LocalConnector()
    return DryRunConnector(lambda kind: board.pool(kind, 0).ready)


def _lease(settings: PlannerSettings) -> Lease:
    if settings.discovery == "kubernetes":
        return KubernetesLease(KubernetesApi(settings.kubernetes_namespace), settings.deployment)
    if settings.discovery == "etcd":
        return EtcdLease(settings.etcd_endpoints, settings.namespace)
    return FileLease(settings.discovery_path)
