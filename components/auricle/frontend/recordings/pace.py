"""How fast an upload must arrive. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from auricle.errors import TooSlow


@dataclass(frozen=True)
class UploadLimits:
    """`idle_seconds`: until the next bytes; `deadline_seconds`: for all of them.

    `bytes_per_second` is a mean over each `window_seconds`.
    """

    idle_seconds: float
    bytes_per_second: float
    window_seconds: float
    deadline_seconds: float


class UploadPace:
    """The pace of one upload.

    Only the time counts in which the server waited for the client, so that a busy server is
    not taken for a slow client.
    """

    def __init__(self, limits: UploadLimits) -> None:
        self._limits = limits
        self._waited = 0.0
        self._window_end = limits.window_seconds
        self._window_bytes = 0

    @property
    def patience(self) -> float:
        """Seconds that the wait for the next bytes may take at most."""
        limits = self._limits
        return min(limits.idle_seconds, max(0.0, limits.deadline_seconds - self._waited))

    def received(self, size: int, waited: float) -> None:
        """Count `size` bytes that were waited for. Raises TooSlow."""
        limits = self._limits
        self._waited += waited
        self._window_bytes += size
        if self._waited >= limits.deadline_seconds:
            raise TooSlow(f"the upload took longer than {limits.deadline_seconds:g} s")
        if self._waited < self._window_end:
            return
        seconds = self._waited - (self._window_end - limits.window_seconds)
        if self._window_bytes < limits.bytes_per_second * seconds:
            raise TooSlow(
                f"the upload is slower than {limits.bytes_per_second:g} bytes a second, "
                f"the mean of {limits.window_seconds:g} s"
            )
        self._window_end = self._waited + limits.window_seconds
        self._window_bytes = 0

    def stalled(self) -> TooSlow:
        """Return the error of a wait that was longer than `patience`."""
        limits = self._limits
        if self._waited + limits.idle_seconds >= limits.deadline_seconds:
            return TooSlow(f"the upload took longer than {limits.deadline_seconds:g} s")
        return TooSlow(f"the next part of the upload took longer than {limits.idle_seconds:g} s")
