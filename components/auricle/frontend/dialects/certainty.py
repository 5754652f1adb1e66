"""How sure one may be that a turn is over. No I/O.

Nothing here looks at what was said: it is a function of how long nobody has spoken. It has a
protocol's default threshold after the silence that ends speech on the other ways in
(`Frontend.min_silence_ms`), and goes towards 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from auricle.live_settings import MIN_SILENCE_MS


@dataclass(frozen=True)
class Certainty:
    """`threshold`, between 0 and 1, is reached after `min_silence_ms`."""

    threshold: float
    min_silence_ms: int

    def after(self, silence_ms: float) -> float:
        """Return how sure one may be after such a silence, from 0 to 1."""
        return round(silence_ms / (silence_ms + self._half_ms), 3)

    def silence_ms(self, wanted: float) -> int:
        """Return the silence after which one may be so sure; `wanted` is below 1."""
        return max(MIN_SILENCE_MS, round(self._half_ms * wanted / (1 - wanted)))

    @property
    def _half_ms(self) -> float:
        return self.min_silence_ms * (1 - self.threshold) / self.threshold
