"""Settings of the frontend that concern recordings; part of its section."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class RecordingSettings(BaseModel):
    """Uploads, what a recording may have, and what decoding it may take."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_recordings: int = Field(256, ge=1, description="complete uploads in work or queued")
    max_upload_bytes: int = Field(512 << 20, ge=1024, description="size limit of a request")
    upload_timeout_seconds: float = Field(
        30.0, gt=0, description="deadline of an upload's next bytes"
    )
    max_recording_seconds: float = Field(
        4 * 3600.0, gt=0, description="length limit of one recording"
    )
    max_recording_tracks: int = Field(
        64, ge=1, description="tracks of a recording, audio or not; one is decoded"
    )
    max_recording_channel_rate: int = Field(
        1_536_000, ge=4_000, description="samples per second of all channels of a recording"
    )
    max_recording_packets_per_second: int = Field(
        500, ge=50, description="packets of a recording per second of its audio"
    )
    decoding_processes: int = Field(
        4,
        ge=1,
        le=64,
        description="concurrent low-priority processes that decode recordings; one more waits",
    )
    decoding_processes_per_client: int | None = Field(
        None,
        ge=1,
        description="decoding processes that one API key may use at a time, or one address where "
        "there are no keys. Default: all but one",
    )
    require_seccomp: bool = Field(
        False, description="do not start where decoding processes cannot have a seccomp filter"
    )
    max_decoding_cpu_seconds: int = Field(
        600, ge=1, description="CPU time limit of decoding one recording"
    )
    max_decoding_seconds: float = Field(
        1800.0, gt=0, description="time that decoding may keep one recording's parts waiting"
    )
    max_decoding_memory_gib: int = Field(
        1, ge=1, description="memory limit of decoding one recording"
    )
    recording_parts_in_flight: int = Field(
        2, ge=1, description="parts transcribed at a time, of all recordings"
    )

    @property
    def most_decoding_processes_per_client(self) -> int:
        """`decoding_processes_per_client`, or its default: all but one, at least one."""
        return self.decoding_processes_per_client or max(1, self.decoding_processes - 1)
