"""Options of the workers of both pools; part of sections `EncodeWorker` and `PdWorker`."""

from __future__ import annotations

from pydantic import Field

from auricle.device_settings import DeviceSettings, EngineName
from auricle.slab_settings import EncoderDeviceSettings

Seconds = float


class EncodeWorkerOptions(EncoderDeviceSettings):
    """What one encode worker holds, and how much it takes at a time."""

    slots: int = Field(256, ge=2, description="slots of the slab, one window each")
    conv_blocks: int = Field(
        2048, ge=8, description="one-second blocks whose conv outputs are cached"
    )
    max_batch_windows: int = Field(8, ge=1, description="windows of one pass of the encoder")
    max_queued_windows: int = Field(256, ge=1, description="beyond, requests are refused")
    lease_seconds: Seconds = Field(30.0, gt=0, description="time to read a reply's embeddings")
    cuda_graphs: bool = Field(
        True, description="on a GPU, record the encoder's passes at start; a CPU has none"
    )


class PdWorkerOptions(DeviceSettings):
    """What one PD worker holds, and how much it takes at a time."""

    engine: EngineName = Field(
        "vllm", description="transformers: one request at a time, for machines without vLLM"
    )
    landing_slots: int = Field(256, ge=2, description="slots of the slab, one window each")
    read_deadline_seconds: Seconds = Field(5.0, gt=0, description="deadline of a NIXL read")
    max_requests: int = Field(32, ge=2, description="in progress; beyond, requests are refused")
    max_model_len: int = Field(2048, ge=256, description="tokens of prompt and output")
    draft_tokens: int = Field(
        8,
        ge=0,
        le=64,
        description="of the previous hypothesis, verified per step if the engine can; 0 for none",
    )
