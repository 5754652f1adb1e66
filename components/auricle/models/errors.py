"""What can go wrong with models; each has an exit status of its own."""

from __future__ import annotations

from auricle.errors import AuricleError


class UnknownName(AuricleError):
    """No model has this name: repeating the request will not help."""

    code = "model_unknown"


class NotReachable(AuricleError):
    """The hub or the package index does not answer, or refuses everything."""

    code = "model_unreachable"


class DamagedModel(AuricleError):
    """Files are not those that were published or pulled."""

    code = "model_damaged"
