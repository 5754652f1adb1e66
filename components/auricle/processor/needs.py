"""Requirements of a processor, for `auricle component Processor --check`."""

from __future__ import annotations

from collections.abc import Sequence

from auricle.config.settings import ProcessorSettings
from auricle.process.needs import Need, checkpoint, imports_of


def needs(settings: ProcessorSettings) -> Sequence[Need]:
    return [imports_of("processor"), checkpoint(settings.model)]
