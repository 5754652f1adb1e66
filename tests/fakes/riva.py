"""Configurations as clients of Riva send them."""

from __future__ import annotations

from typing import Any

from auricle.frontend.transport.grpc.schema import message


def config(**fields: Any) -> Any:
    return message("nvidia.riva.asr.RecognitionConfig")(**fields)
