"""Settings of the frontend's door: how many may come, how fast, and how slow they may be.

They are part of section `Frontend`; see docs/limits.md.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network

from pydantic import BaseModel, Field

Seconds = float


class DoorSettings(BaseModel):
    """Bounds of connections, requests and uploads, of one client and of all."""

    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = Field(
        (),
        description="networks of proxies whose X-Forwarded-For names the client; their own "
        "connections are not counted by address",
    )
    max_connections: int = Field(8192, ge=1, description="open connections")
    max_connections_per_address: int = Field(2048, ge=0, description="0 for no limit")
    max_connections_per_key: int = Field(
        0, ge=0, description="sessions and recordings of a tenant; 0 for no limit"
    )
    max_handshakes_per_address: float = Field(
        100.0, ge=0, description="requests and WebSocket handshakes per second; 0 for no limit"
    )
    max_handshakes_per_key: float = Field(
        100.0, ge=0, description="sessions and recordings per second; 0 for no limit"
    )
    header_timeout_seconds: Seconds = Field(
        10.0, gt=0, description="deadline of a TLS handshake, and of a request's line and headers"
    )
    grpc_port: int | None = Field(
        None, ge=0, le=65535, description="port of the gRPC services; None: none, 0: a free one"
    )
    grpc_max_message_bytes: int = Field(
        16 << 20, ge=1 << 16, le=1 << 28, description="size limit of a gRPC message"
    )
    keep_alive_seconds: Seconds = Field(
        15.0, gt=0, description="until the next request of an HTTP connection"
    )
    listen_idle_seconds: Seconds = Field(
        10.0, gt=0, description="deadline of a client's next audio or KeepAlive on /v1/listen"
    )
    max_uploads: int = Field(256, ge=1, description="uploads in progress")
    max_uploads_per_address: int = Field(128, ge=0, description="0 for no limit")
    max_uploads_per_key: int = Field(128, ge=0, description="0 for no limit")
    min_upload_bytes_per_second: float = Field(
        1000.0, ge=0, description="mean over upload_window_seconds; slower uploads are ended"
    )
    upload_window_seconds: Seconds = Field(15.0, gt=0)
    upload_deadline_seconds: Seconds = Field(3600.0, gt=0, description="of one upload in all")
