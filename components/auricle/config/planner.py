"""Options of the planner; part of section `Planner`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, Field, model_validator

from auricle.config.common import MAX_PLANNERS, BesideLimits, PoolLimits, within_one_launcher


class PlannerOptions(BaseModel):
    """What it may decide, how often, and who carries it out."""

    replicas: int = Field(
        0, ge=0, le=MAX_PLANNERS, description="1 sizes the pools; 2 add a standby"
    )
    connector: Literal["local", "kubernetes", "dry-run"] = Field(
        "local", description="what scales the pools: the launcher, Kubernetes, or nothing"
    )
    profile: Path | None = Field(None, description="capacity profile; `auricle profile` writes it")
    encode: PoolLimits = Field(
        PoolLimits.model_validate({}), description="bounds of the encode pool"
    )
    pd: PoolLimits = Field(PoolLimits.model_validate({}), description="bounds of the PD pool")
    align_encode: BesideLimits = Field(
        BesideLimits.model_validate({}), description="bounds of the aligner's encode pool"
    )
    align: BesideLimits = Field(
        BesideLimits.model_validate({}), description="bounds of the align pool"
    )
    diarize: BesideLimits = Field(
        BesideLimits.model_validate({}), description="bounds of the diarize pool"
    )
    translate: BesideLimits = Field(
        BesideLimits.model_validate({}), description="bounds of the translate pool"
    )
    gpu_budget: float | None = Field(
        None, gt=0, description="GPUs for all pools together; those of text come first"
    )
    step_seconds: float = Field(30.0, ge=1, le=300, description="interval of decisions")
    target: float = Field(
        1.0, gt=0.1, le=1, description="target utilisation, as a share of a worker's capacity"
    )
    slo: float = Field(
        0.99,
        ge=0.5,
        lt=1,
        description="share of sessions that must find a worker; the forecast's margin learns it",
    )
    ebb_seconds: float = Field(
        30.0, ge=0, description="before a scale-down, fewer workers must suffice for so long"
    )
    settle_seconds: float = Field(120.0, ge=0, description="no decision is reversed within it")
    idle_seconds: float = Field(
        600.0,
        ge=0,
        description="a pool beside the path is emptied when nobody has asked for it for so long",
    )
    deployment: str = Field("auricle", description="name of the DynamoGraphDeployment")
    kubernetes_namespace: str = Field(
        "", description="namespace of the deployment; empty: the pod's"
    )

    @model_validator(mode="after")
    def _what_the_launcher_grants(self) -> Self:
        if self.replicas and self.connector == "local":
            within_one_launcher({key: own for key, own in self if isinstance(own, PoolLimits)})
        return self
