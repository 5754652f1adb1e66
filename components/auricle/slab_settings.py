"""Settings of where workers keep embeddings: part of section `Common`, and of `EncodeWorker`."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, Field, model_validator

SlabChoice = Literal["auto", "host", "device"]


class SlabSettings(BaseModel):
    """Where workers keep embeddings."""

    slab: SlabChoice = Field(
        "auto",
        description="embeddings of a worker: in host memory, or on its GPU (device), whence they "
        "are transferred without the host; auto: on a GPU that NIXL can reach",
    )


class EncoderDeviceSettings(SlabSettings):
    """Where the encoder runs."""

    device: str = Field("cpu", description="torch device of the encoder")

    @model_validator(mode="after")
    def _slab_on_device(self) -> Self:
        if self.slab == "device" and not self.device.startswith("cuda"):
            raise ValueError(
                f"slab is device, but device is {self.device}: set device to cuda, or slab to "
                "auto or host"
            )
        return self
