"""What Dynamo's frontend needs before it can serve: `auricle component DynamoFrontend --check`."""

from __future__ import annotations

from collections.abc import Sequence

from auricle.config.settings import DynamoFrontendSettings
from auricle.process.needs import Need, imports_of


def needs(settings: DynamoFrontendSettings) -> Sequence[Need]:
    return [imports_of("dynamo_frontend", "dynamo.frontend.main")]
