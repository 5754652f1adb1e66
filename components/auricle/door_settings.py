"""Settings of the frontend's door: who may come, how many, how fast, and how slow they may be.

They are part of section `Frontend`; see docs/limits.md.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network
from typing import Literal

from pydantic import BaseModel, Field

# Whose clients' names of models there are.
ModelPreset = Literal["openai", "assemblyai"]


class DoorSettings(BaseModel):
    """What clients may ask for; bounds of connections, requests and uploads, of one and of all."""

    model_aliases: tuple[str, ...] = Field(
        (), description="further model names that clients may use, such as whisper-1"
    )
    model_presets: tuple[ModelPreset, ...] = Field(
        (), description="also the names that clients of these services send by default"
    )
    cors_origins: tuple[str, ...] = Field(
        (), description="origins whose web pages may call, besides the server's own; `*` for all"
    )
    page: bool = Field(True, description="serve the pages: live captions at /, operations at /ops")
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = Field(
        (),
        description="networks of proxies whose X-Forwarded-For names the client; their own "
        "connections are not counted by address",
    )
    max_connections: int = Field(8192, ge=1, description="open connections")
    max_connections_per_address: int = Field(
        2048, ge=0, description="open connections of one address; 0 for no limit"
    )
    max_connections_per_key: int = Field(
        0, ge=0, description="sessions and recordings of a tenant at a time; 0 for no limit"
    )
    max_handshakes_per_address: float = Field(
        100.0,
        ge=0,
        description="requests and WebSocket handshakes of one address per second; 0 for no limit",
    )
    max_handshakes_per_key: float = Field(
        100.0, ge=0, description="sessions and recordings of a tenant per second; 0 for no limit"
    )
    header_timeout_seconds: float = Field(
        10.0, gt=0, description="deadline of a TLS handshake, and of a request's line and headers"
    )
    grpc_port: int | None = Field(
        None, ge=0, le=65535, description="port of the gRPC services; null: none, 0: a free one"
    )
    grpc_max_message_bytes: int = Field(
        16 << 20, ge=1 << 16, le=1 << 28, description="size limit of a gRPC message"
    )
    keep_alive_seconds: float = Field(
        15.0, gt=0, description="deadline of the next request of an HTTP connection"
    )
    listen_idle_seconds: float = Field(
        10.0, gt=0, description="deadline of the next audio or KeepAlive of Deepgram's clients"
    )
    max_channels: int = Field(
        8, ge=1, le=32, description="channels of a connection or a recording that are heard apart"
    )
    wyoming_port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="port of Wyoming (Home Assistant), on host; null: not served",
    )
    audiosocket_port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="port of AudioSocket (Asterisk), on host; null: not served",
    )
    keyless_tenant: str | None = Field(
        None,
        description="tenant of the clients of ways without keys (Wyoming, AudioSocket); needed if "
        "there are keys",
    )
    max_uploads: int = Field(256, ge=1, description="uploads in progress")
    max_uploads_per_address: int = Field(
        128, ge=0, description="uploads in progress of one address; 0 for no limit"
    )
    max_uploads_per_key: int = Field(
        128, ge=0, description="uploads in progress of a tenant; 0 for no limit"
    )
    min_upload_bytes_per_second: float = Field(
        1000.0, ge=0, description="mean over upload_window_seconds; slower uploads are ended"
    )
    upload_window_seconds: float = Field(
        15.0, gt=0, description="time over which the rate of an upload is measured"
    )
    upload_deadline_seconds: float = Field(
        3600.0, gt=0, description="deadline of one upload in all"
    )

    @property
    def keyless_ports(self) -> dict[str, int]:
        """The ports, by protocol, of ways in that have no keys."""
        ports = {"wyoming": self.wyoming_port, "audiosocket": self.audiosocket_port}
        return {name: number for name, number in ports.items() if number is not None}
