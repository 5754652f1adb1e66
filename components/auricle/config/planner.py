"""Options of the planner; part of section `Planner`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, Field, model_validator

from auricle.config.common import MAX_PLANNERS, OptionalPoolLimits, PoolLimits, within_one_launcher


class PlannerOptions(BaseModel):
    """Bounds of the planner's decisions, their interval, and the connector."""

    replicas: int = Field(
        0, ge=0, le=MAX_PLANNERS, description="planner processes; the second is a standby"
    )
    connector: Literal["local", "kubernetes", "dry-run"] = Field(
        "local", description="scales the pools by the launcher, by Kubernetes, or not at all"
    )
    profile: Path | None = Field(None, description="capacity profile; `auricle profile` writes it")
    encode: PoolLimits = Field(
        PoolLimits.model_validate({}), description="bounds of the encode pool"
    )
    pd: PoolLimits = Field(PoolLimits.model_validate({}), description="bounds of the PD pool")
    align_encode: OptionalPoolLimits = Field(
        OptionalPoolLimits.model_validate({}), description="bounds of the aligner's encode pool"
    )
    align: OptionalPoolLimits = Field(
        OptionalPoolLimits.model_validate({}), description="bounds of the align pool"
    )
    diarize: OptionalPoolLimits = Field(
        OptionalPoolLimits.model_validate({}), description="bounds of the diarize pool"
    )
    translate: OptionalPoolLimits = Field(
        OptionalPoolLimits.model_validate({}), description="bounds of the translate pool"
    )
    gpu_budget: float | None = Field(
        None, gt=0, description="GPUs for all pools together; the text pools have priority"
    )
    step_seconds: float = Field(30.0, ge=1, le=300, description="interval of decisions")
    target: float = Field(
        1.0, gt=0.1, le=1, description="target utilisation, as a share of a worker's capacity"
    )
    slo: float = Field(
        0.99,
        ge=0.5,
        lt=1,
        description="share of sessions that must find a worker; sets the forecast's margin",
    )
    ebb_seconds: float = Field(
        30.0, ge=0, description="time for which fewer workers must suffice before a scale-down"
    )
    settle_seconds: float = Field(120.0, ge=0, description="time before a decision may be undone")
    idle_seconds: float = Field(
        600.0,
        ge=0,
        description="time without a session that needs an optional pool after which it is emptied",
    )
    deployment: str = Field("auricle", description="name of the DynamoGraphDeployment")
    kubernetes_namespace: str = Field(
        "", description="namespace of the deployment; empty: the pod's"
    )

    @model_validator(mode="after")
    def _within_the_launcher(self) -> Self:
        if self.replicas and self.connector == "local":
            within_one_launcher({key: own for key, own in self if isinstance(own, PoolLimits)})
        return self
