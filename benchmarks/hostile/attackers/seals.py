"""Seals of messages within the graph: good ones, and those of somebody without the secret."""

from __future__ import annotations

import secrets
from pathlib import Path

from auricle.dynamo.secrets import SECRET_FILE, Secrets
from auricle.dynamo.signing import Signer, machine_clock

_OLD_SECONDS = 3_600.0


class Seals:
    """Seals in every way that `generators.inside.SEALS` names."""

    def __init__(self, discovery: Path, folder: Path) -> None:
        """`discovery` has the deployment's secret; `folder` is for one that is made up."""
        made_up = folder / "made-up"
        made_up.touch(mode=0o600)
        made_up.write_text(secrets.token_hex(32))
        known = Secrets(discovery / SECRET_FILE, "the deployment's secret")
        self.good = Signer(known)
        self._old = Signer(known, lambda: max(0.0, machine_clock() - _OLD_SECONDS))
        self._made_up = Signer(Secrets(made_up, "a made-up secret"))
        self._last = b""

    def seal(self, how: str, message: bytes, receiver: str) -> bytes:
        """Return the message, sealed for `receiver` in that way."""
        if how == "none":
            return message
        if how == "twice" and self._last:
            return self._last
        sealer = {"made up": self._made_up, "old": self._old}.get(how, self.good)
        name = "another.endpoint/1" if how == "of another" else receiver
        sealed = sealer.seal(message, name)
        if how in ("good", "twice"):
            self._last = sealed
        return sealed[:-1] if how == "cut" else sealed
