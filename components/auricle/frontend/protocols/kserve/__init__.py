"""KServe's inference protocol over gRPC, with the sequences of Triton's streams."""

from auricle.frontend.capabilities import ProtocolCapabilities

CAPABILITIES = (
    ProtocolCapabilities(
        route="ModelStreamInfer",
        page="kserve.md",
        partials="partials",
        language="language",
        keywords="context",
    ),
    ProtocolCapabilities(
        route="ModelInfer",
        page="kserve.md",
        language="language",
        keywords="context",
    ),
)
