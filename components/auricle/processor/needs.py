"""What a processor needs before it can serve: `auricle component Processor --check`."""

from __future__ import annotations

from collections.abc import Sequence

from auricle.config.settings import ProcessorSettings
from auricle.process.needs import Need, checkpoint, imports_of


def needs(settings: ProcessorSettings) -> Sequence[Need]:
    """Return the needs of a processor with these settings."""
    return [imports_of("processor"), checkpoint(settings.model)]
