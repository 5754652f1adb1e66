"""KServe's inference protocol over gRPC, with the sequences of Triton's streams."""

from auricle.frontend.doors.capabilities import Capabilities

CAPABILITIES = (
    Capabilities(
        way="ModelStreamInfer",
        page="kserve.md",
        partials="partials",
        language="language",
        keywords="context",
    ),
    Capabilities(
        way="ModelInfer",
        page="kserve.md",
        language="language",
        keywords="context",
    ),
)
