"""Settings of the workers, by section; sections of two pools share what they have in common."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import BaseModel, Field, model_validator

from auricle.config.common import CommonSettings
from auricle.config.devices import (
    DeviceSettings,
    EncoderDeviceSettings,
    EngineName,
    only_of_vllm,
    within_devices,
    without_drafts,
)


class EncoderOptions(EncoderDeviceSettings):
    """Of sections `EncodeWorker` and `AlignEncodeWorker`."""

    slots: int = Field(256, ge=2, description="slots of the slab, one window each")
    conv_blocks: int = Field(
        2048, ge=8, description="one-second blocks whose conv outputs are cached"
    )
    max_batch_windows: int = Field(8, ge=1, description="windows of one pass of the encoder")
    max_queued_windows: int = Field(
        256, ge=1, description="windows that wait; beyond, requests are refused"
    )
    lease_seconds: float = Field(
        30.0, gt=0, description="time in which a reply's embeddings must be read"
    )
    cuda_graphs: bool = Field(
        True, description="on a GPU, record the encoder's passes at start; a CPU has none"
    )


class LandingOptions(BaseModel):
    """Of sections `PdWorker` and `AlignWorker`: where embeddings land."""

    landing_slots: int = Field(256, ge=2, description="slots of the slab, one window each")
    read_deadline_seconds: float = Field(5.0, gt=0, description="deadline of a NIXL read")


class AlignerOptions(LandingOptions, EncoderDeviceSettings):
    """Of section `AlignWorker`."""

    device: str = Field("cpu", description="torch device of the aligner")
    max_requests: int = Field(
        64, ge=1, description="segments in progress; beyond, requests are refused"
    )
    max_batch_segments: int = Field(16, ge=1, description="segments of one pass at most")
    max_batch_tokens: int = Field(
        16384, ge=512, description="tokens of one pass at most, what fills segments up included"
    )
    max_tokens: int = Field(
        8192,
        ge=256,
        description="tokens of one segment, audio and words together; with Whisper words alone",
    )


class EncodeWorkerSettings(EncoderOptions, CommonSettings):
    """Section `EncodeWorker`."""

    component: ClassVar[str] = "EncodeWorker"
    pool: ClassVar[Literal["encode_worker", "align_encode_worker"]] = "encode_worker"


class AlignEncodeWorkerSettings(EncodeWorkerSettings):
    """Section `AlignEncodeWorker`: an encode worker that serves the aligner's checkpoint."""

    component: ClassVar[str] = "AlignEncodeWorker"
    pool = "align_encode_worker"

    @property
    def checkpoint(self) -> Path:
        return self.aligner


class AlignWorkerSettings(AlignerOptions, CommonSettings):
    """Section `AlignWorker`."""

    @property
    def checkpoint(self) -> Path:
        return self.aligner

    @model_validator(mode="after")
    def _room_for_a_segment(self) -> Self:
        if self.max_batch_tokens < self.max_tokens:
            raise ValueError(
                f"max_batch_tokens is {self.max_batch_tokens}, less than the {self.max_tokens} of "
                "max_tokens, which one segment may have: raise it, or lower max_tokens"
            )
        return self


class DiarizeWorkerSettings(CommonSettings):
    """Section `DiarizeWorker`."""

    device: str = Field("cpu", description="torch device of the speaker model")
    max_requests: int = Field(
        64, ge=1, description="segments in progress; beyond, requests are refused"
    )
    max_batch_segments: int = Field(8, ge=1, description="segments whose windows share passes")
    max_batch_windows: int = Field(
        32, ge=1, description="windows of 1.5 s in one pass of the speaker model"
    )

    @property
    def checkpoint(self) -> Path:
        return self.speakers


class DecoderSettings(DeviceSettings, CommonSettings):
    """Of sections `PdWorker` and `TranslateWorker`: what an engine takes and how it decodes."""

    component: ClassVar[str]

    max_requests: int = Field(
        32, ge=2, description="decodes in progress; beyond, requests are refused"
    )
    max_model_len: int = Field(2048, ge=256, description="tokens of prompt and output")
    draft_tokens: int = Field(
        8,
        ge=0,
        le=64,
        description="tokens of the previous hypothesis that are verified per step, if the engine "
        "can; 0: none",
    )

    @model_validator(mode="after")
    def _shares_of_devices(self) -> Self:
        within_devices(self.replicas, self.gpus, self.processes_per_device)
        without_drafts(self.async_scheduling, self.draft_tokens)
        return self


class PdWorkerSettings(LandingOptions, DecoderSettings):
    """Section `PdWorker`."""

    component: ClassVar[str] = "PdWorker"

    engine: EngineName = Field(
        "vllm", description="transformers: one request at a time, for machines without vLLM"
    )
    limit_reuse: bool = Field(
        True, description="cache KV of finished windows only; no decode reuses the rest"
    )

    @model_validator(mode="after")
    def _what_the_engine_has(self) -> Self:
        only_of_vllm(self.engine, self, self.placement)
        return self


class TranslateWorkerSettings(DecoderSettings):
    """Section `TranslateWorker`: vLLM with a text model."""

    component: ClassVar[str] = "TranslateWorker"

    deadline_seconds: float = Field(
        20.0, gt=0, description="deadline of a request; the session asks again"
    )

    @property
    def checkpoint(self) -> Path:
        return self.translator
