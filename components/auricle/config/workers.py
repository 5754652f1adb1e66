"""Settings of the workers, by section."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import BaseModel, Field, model_validator

from auricle.config.common import CommonSettings
from auricle.config.devices import (
    ComputeType,
    DeviceSettings,
    EncoderDeviceSettings,
    EngineName,
    TextEngineName,
    only_of_vllm,
    within_devices,
    without_drafts,
)


class EncoderOptions(EncoderDeviceSettings):
    """Settings of `EncodeWorker` and `AlignEncodeWorker`."""

    slots: int = Field(256, ge=2, description="slots of the slab, one window each")
    conv_blocks: int = Field(
        2048, ge=8, description="one-second blocks whose conv outputs are cached"
    )
    max_batch_windows: int = Field(8, ge=1, description="windows of one pass of the encoder")
    max_queued_windows: int = Field(
        256, ge=1, description="waiting windows; beyond this limit requests are rejected"
    )
    lease_seconds: float = Field(
        30.0, gt=0, description="time within which a reply's embeddings must be read"
    )
    cuda_graphs: bool = Field(
        True, description="on a GPU, record the encoder's passes as CUDA graphs at startup"
    )
    compute_type: ComputeType | None = Field(
        None,
        description="data type of the weights and products of Whisper's encoder on a CPU; int8 "
        "takes about half of the time. Default: dtype",
    )


class LandingOptions(BaseModel):
    """Settings of `PdWorker` and `AlignWorker`: the landing slab."""

    landing_slots: int = Field(256, ge=2, description="slots of the slab, one window each")
    read_deadline_seconds: float = Field(5.0, gt=0, description="deadline of a NIXL read")


class AlignerOptions(LandingOptions, EncoderDeviceSettings):
    """Settings of `AlignWorker`."""

    device: str = Field("cpu", description="torch device of the aligner")
    max_requests: int = Field(
        64, ge=1, description="segments in progress; more requests are rejected"
    )
    max_batch_segments: int = Field(16, ge=1, description="maximum of segments in one pass")
    max_batch_tokens: int = Field(
        16384, ge=512, description="maximum of tokens in one pass, padding included"
    )
    max_tokens: int = Field(
        8192,
        ge=256,
        description="tokens of one segment, audio and words together; with Whisper only words",
    )


class EncodeWorkerSettings(EncoderOptions, CommonSettings):
    """Section `EncodeWorker`."""

    component: ClassVar[str] = "EncodeWorker"
    pool: ClassVar[Literal["encode_worker", "align_encode_worker"]] = "encode_worker"

    @model_validator(mode="after")
    def _computes_on_the_device(self) -> Self:
        if self.compute_type and (self.dtype != "float32" or self.device != "cpu"):
            raise ValueError(
                f"compute_type is {self.compute_type}, a setting for float32 embeddings on a CPU, "
                f"but dtype is {self.dtype} and device {self.device}: set it to null"
            )
        return self


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
                f"max_batch_tokens is {self.max_batch_tokens}, less than max_tokens of a segment, "
                f"{self.max_tokens}: raise max_batch_tokens, or lower max_tokens"
            )
        return self


class DiarizeWorkerSettings(CommonSettings):
    """Section `DiarizeWorker`."""

    device: str = Field("cpu", description="torch device of the speaker model")
    max_requests: int = Field(
        64, ge=1, description="segments in progress; more requests are rejected"
    )
    max_batch_segments: int = Field(8, ge=1, description="segments whose windows share passes")
    max_batch_windows: int = Field(
        32, ge=1, description="windows of 1.5 s in one pass of the speaker model"
    )

    @property
    def checkpoint(self) -> Path:
        return self.speakers


class DecoderSettings(DeviceSettings, CommonSettings):
    """Settings of `PdWorker` and `TranslateWorker`: an engine's limits and decoding."""

    component: ClassVar[str]

    max_requests: int = Field(
        32, ge=2, description="decodes in progress; more requests are rejected"
    )
    max_model_len: int = Field(2048, ge=256, description="tokens of prompt and output")
    draft_tokens: int = Field(
        8,
        ge=0,
        le=64,
        description="tokens of the previous hypothesis to verify per step, if the engine can; "
        "0: none",
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
        "vllm",
        description="engine of the decoder; transformers runs one request at a time, sglang has an "
        "environment of its own, ctranslate2 runs Whisper on a CPU",
    )
    compute_type: ComputeType = Field(
        "int8",
        description="data type of weights and products of engine ctranslate2; float32 is slower, "
        "and gives the words of the other engines",
    )
    limit_reuse: bool = Field(
        True, description="cache only the KV of finished windows, as no decode reuses the rest"
    )

    @model_validator(mode="after")
    def _supported_by_the_engine(self) -> Self:
        only_of_vllm(self.engine, self)
        if self.placement == "kv" and self.engine != "vllm":
            raise ValueError(
                f"placement is kv, but engine {self.engine} publishes no KV events: set placement "
                "to load, or engine to vllm"
            )
        if self.engine == "ctranslate2" and self.dtype != "float32":
            raise ValueError(
                f"dtype is {self.dtype}, but engine ctranslate2 reads float32 embeddings: set "
                "dtype to float32, and compute_type for the weights"
            )
        if self.engine != "ctranslate2" and "compute_type" in self.model_fields_set:
            raise ValueError(
                f"compute_type is {self.compute_type}, a setting of ctranslate2, but engine is "
                f"{self.engine}: unset one of them"
            )
        return self


class TranslateWorkerSettings(DecoderSettings):
    """Section `TranslateWorker`: an engine with a text model."""

    component: ClassVar[str] = "TranslateWorker"

    engine: TextEngineName = Field(
        "vllm",
        description="engine of the text model; sglang has an environment of its own, and no drafts",
    )
    deadline_seconds: float = Field(
        20.0, gt=0, description="deadline of a request; the session retries it"
    )

    @model_validator(mode="after")
    def _supported_by_the_engine(self) -> Self:
        only_of_vllm(self.engine, self)
        return self

    @property
    def checkpoint(self) -> Path:
        return self.translator
